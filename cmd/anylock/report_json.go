package main

type suiteRecord struct {
	Backend string `json:"backend"`
	counts
	Rules   []ruleRecord   `json:"rules"`
	Results []resultRecord `json:"results"`
}

type ruleRecord struct {
	Rule  int    `json:"rule"` // 0 for checks of methods, errors and guarantees: see ruleTitles
	Title string `json:"title"`
	counts
}

type resultRecord struct {
	Name        string  `json:"name"`
	Group       string  `json:"group,omitempty"`
	Rule        string  `json:"rule"`
	Rules       []int   `json:"rules,omitempty"`
	Broken      string  `json:"broken,omitempty"` // the rule that a failed check found broken; mostly the same as Rule
	Status      string  `json:"status"`
	Missing     string  `json:"missing,omitempty"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Output      string  `json:"output,omitempty"`
	Seconds     float64 `json:"seconds"`
}

func newSuiteRecord(s suiteResult) suiteRecord {
	record := suiteRecord{Backend: s.driver, counts: count(s.results), Rules: []ruleRecord{}, Results: []resultRecord{}}
	for rule, n := range byRule(s.results) {
		if n.sum() > 0 {
			record.Rules = append(record.Rules, ruleRecord{rule, ruleTitles[rule], n})
		}
	}
	for _, r := range s.results {
		record.Results = append(record.Results, resultRecord{
			Name: r.Name, Group: r.Group, Rule: r.Rule, Rules: r.Rules(), Broken: r.Broken, Status: string(r.Status),
			Missing:     r.Missing,
			Interrupted: r.Interrupted, Output: r.Output, Seconds: r.Duration.Seconds(),
		})
	}
	return record
}
