package main

import (
	"fmt"
	"slices"
	"strings"
)

// A choice is the value of a flag that accepts one of a few words. The first word is the default.
type choice struct {
	words []string
	word  string
}

func newChoice(words ...string) *choice { return &choice{words: words, word: words[0]} }

func (c *choice) is(word string) bool { return c.word == word }

func (c *choice) usage() string { return "output format: " + strings.Join(c.words, ", ") }

func (c *choice) String() string { return c.word }

func (c *choice) Type() string { return "format" }

func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("want one of %s", strings.Join(c.words, ", "))
	}
	c.word = word
	return nil
}
