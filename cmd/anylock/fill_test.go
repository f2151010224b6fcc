package main

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

// A plan's URLs hide every password. They work once each *** is replaced by the escaped password that it stands for.
func TestPlannedURLsCanBeFilledIn(t *testing.T) {
	var opened []string
	driver.Register(driver.Driver{
		Name: "recorder", Examples: []string{"recorder:"},
		URLs:        []driver.URLForm{{Scheme: "recorder", Hosts: driver.ManyHosts, User: true, Path: driver.OptionalPath}},
		Params:      []driver.Param{{Name: "lock_node", Many: true}, {Name: "lock_password", Many: true}, {Name: "lock_x"}},
		OtherParams: "a library",
		Open: func(_ context.Context, u driver.URL) (backend.Backend, error) {
			opened = append(opened, u.Raw)
			return memory.New(), nil
		},
	})
	for _, password := range []string{"Zq7secret", "Zq7 /?#[]@:&=+%;\"'\\***é", "Zq7%41", "***Zq7"} {
		p := driver.Escape(password)
		node := func(host string) string { return "&lock_node=" + driver.Escape("redis://u:"+p+"@"+host) }
		for raw, count := range map[string]int{
			"recorder://u@h/0":                                     0,
			"recorder://u:" + p + "@h/0?a=b":                       1,
			"recorder://h/?password=" + p:                          1,
			"recorder://u:" + p + "@h/0?sentinel_password=" + p:    2,
			"recorder://h?a=b" + node("h1") + node("h2"):           2,
			"recorder://u:" + p + "@h?x=y" + node("h1") + "&z=w":   2,
			"recorder://u:" + p + "@[::1]:1,h2:2/a%20b?c=d+e%2Bf":  1,
			"recorder://u:" + p + "@h?lock_x=1&passfile=%2Fa%2Fb":  2,
			"recorder://h?lock_node=redis%3A%2F%2Fh1&a=" + "x%3A1": 0,
		} {
			plan := &switchPlan{Cut: 7}
			plan.setURLs(raw, "recorder://other:"+p+"@h2")
			fill := func(text string) string { return strings.ReplaceAll(text, "***", p) }
			if strings.Contains(plan.From+plan.Both+plan.To, "Zq7") {
				t.Errorf("%s: a password is shown: %+v", raw, plan)
			}
			if got := strings.Count(plan.Both, "***"); got != count+1 {
				t.Errorf("%s: %d *** in %s", raw, got, plan.Both)
			}
			if strings.Contains(raw, "passfile") {
				continue // fill would replace the masked passfile by the password
			}
			opened = nil
			for _, text := range []string{plan.From, plan.To, plan.Both} {
				s, err := pair.OpenStore(t.Context(), fill(text))
				if err != nil {
					t.Fatalf("%s: %v", fill(text), err)
				}
				_ = s.Backend.Close()
			}
			if len(opened) != 4 || passwordsOf(t, opened[0]) != passwordsOf(t, raw) ||
				passwordsOf(t, opened[1]) != passwordsOf(t, opened[3]) || passwordsOf(t, opened[2]) != passwordsOf(t, raw) {
				t.Errorf("%s\nprinted %+v\nopened %q", raw, plan, opened)
			}
		}
	}
}

// passwordsOf returns all decoded passwords of a URL and of the URLs in its parameters.
func passwordsOf(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := driver.SplitURL(rawURL)
	if err != nil {
		t.Fatalf("%s: %v", rawURL, err)
	}
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := driver.FillPasswords(query["lock_node"], query["lock_password"])
	if err != nil {
		t.Fatalf("%s: %v", rawURL, err)
	}
	list := []string{u.Password, query.Get("password"), query.Get("sentinel_password")}
	for _, n := range nodes {
		list = append(list, passwordsOf(t, n))
	}
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), "|")
}

// A plan's URLs have only printable characters, and mean the same as the URLs that were given.
func TestPlannedURLsArePrintable(t *testing.T) {
	plan := &switchPlan{Cut: 7}
	plan.setURLs("redis://h/a\u009b\xff?lock_prefix=\u202e", "file:///b\u2028é")
	if want := "redis://h/a%C2%9B%FF?lock_prefix=%E2%80%AE"; plan.From != want {
		t.Errorf("from %q, want %q", plan.From, want)
	}
	if want := "file:///b%E2%80%A8é"; plan.To != want {
		t.Errorf("to %q, want %q", plan.To, want)
	}
	if kit.Printable(plan.Both) != plan.Both {
		t.Errorf("both %q", plan.Both)
	}
}
