package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/guaranteestable"

	// The stores that the tables show.
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/sqltable/pgtable"
	_ "github.com/anylock/lock/zookeeper"
)

// A part is a generated text between "<!-- NAME:begin -->" and "<!-- NAME:end -->".
type part struct {
	name string
	make func() (string, error)
}

var parts = []part{
	table("guarantees", guaranteestable.Markdown),
	table("choice", guaranteestable.ChoiceMarkdown),
	table("urls", guaranteestable.URLsMarkdown),
	table("needs", writeNeeds),
	params("etcd"), params("memcached"), params("postgres"), params("postgres-table"), params("redis"), params("redlock"),
	params("zookeeper"),
}

// table returns a part that shows all stores.
func table(name string, write func(io.Writer, []driver.Driver) error) part {
	return part{name, func() (string, error) {
		var b bytes.Buffer
		err := write(&b, driver.Registered())
		return b.String(), err
	}}
}

// params returns a part that shows the URL parameters of a store.
func params(store string) part {
	return table("params of "+store, func(w io.Writer, drivers []driver.Driver) error {
		i := slices.IndexFunc(drivers, func(d driver.Driver) bool { return d.Name == store })
		return guaranteestable.ParamsMarkdown(w, drivers[i])
	})
}

// chinese is the file name of the Chinese README.
const chinese = "README.zh-CN.md"

// documents lists README.md, README.zh-CN.md, docs/*.md and the folders of docs below dir.
func documents(dir string) ([]string, error) {
	docs, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	list := append([]string{filepath.Join(dir, "README.md"), filepath.Join(dir, chinese)}, docs...)
	for _, folder := range []string{"stores", "adapters", "decisions", "evidence"} {
		pages, err := filepath.Glob(filepath.Join(dir, "docs", folder, "*.md"))
		if err != nil {
			return nil, err
		}
		list = append(list, pages...)
	}
	return list, nil
}

// generate returns text with all its generated parts renewed, and the names of these parts.
func generate(text string) (fresh string, names []string, err error) {
	for _, p := range parts {
		begin, end := marker(p.name, "begin"), marker(p.name, "end")
		head, rest, found := strings.Cut(text, begin)
		if !found {
			if strings.Contains(text, end) {
				return "", nil, fmt.Errorf("%s without %s", end, begin)
			}
			continue
		}
		_, tail, found := strings.Cut(rest, end)
		if !found || strings.Contains(tail, begin) {
			return "", nil, fmt.Errorf("%s without %s, or twice", begin, end)
		}
		made, err := p.make()
		if err != nil {
			return "", nil, err
		}
		text = head + begin + "\n" + strings.TrimSpace(made) + "\n" + end + tail
		names = append(names, p.name)
	}
	return text, names, nil
}

func marker(name, what string) string { return "<!-- " + name + ":" + what + " -->" }
