package conformance

import (
	"regexp"
	"strconv"
)

// Rules returns the numbers of the rules of package backend that c proves. It returns none if c proves the comment of a
// Guarantees field or of a method.
func (c Check) Rules() []int { return ruleNumbers(c.Rule) }

// Rules returns the numbers of the rules of package backend that the check proves: see Check.Rules.
func (r Result) Rules() []int { return ruleNumbers(r.Rule) }

var (
	ruleNames = regexp.MustCompile(`^rules? ([0-9, and]+):`)
	ruleName  = regexp.MustCompile(`[0-9]+`)
)

// ruleNumbers parses the beginning of a rule's text: "rule 3: …", "rules 1, 7 and 9: …".
func ruleNumbers(rule string) (numbers []int) {
	names := ruleNames.FindStringSubmatch(rule)
	if names == nil {
		return nil
	}
	for _, name := range ruleName.FindAllString(names[1], -1) {
		n, err := strconv.Atoi(name)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}
