package lockhttp_test

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/lockhttp"
)

type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []string
	Required   []string
	Properties map[string]*schema
	Items      *schema
	Closed     *bool `json:"additionalProperties"`
}

type operation struct {
	Parameters []struct{ Name, In string }
	Responses  map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]*schema }
}

var openAPI = sync.OnceValue(func() document {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		panic(err)
	}
	return d
})

// operation returns the document's description of a request, or nil if there is none.
func (d document) operation(method, target string) *operation {
	p, _, _ := strings.Cut(target, "?")
	for template, methods := range d.Paths {
		before, after, hasKey := strings.Cut(template, "{key}")
		middle := strings.TrimSuffix(strings.TrimPrefix(p, before), after)
		if p != template && (!hasKey || middle == "" || strings.Contains(middle, "/") || p != before+middle+after) {
			continue
		}
		raw := methods[strings.ToLower(method)]
		if raw == nil {
			return nil
		}
		var o operation
		if err := json.Unmarshal(raw, &o); err != nil {
			panic(err)
		}
		return &o
	}
	return nil
}

// checkDocumented compares a reply with the document. Statuses that any request can get, such as 405, need no entry.
func checkDocumented(t *testing.T, method, target string, a answer) {
	t.Helper()
	o := openAPI().operation(method, target)
	if o == nil || slices.Contains([]int{405, 408, 413, 421}, a.code) {
		return
	}
	response, ok := o.Responses[strconv.Itoa(a.code)]
	if !ok {
		t.Errorf("%s %s: the document has no status %d", method, target, a.code)
		return
	}
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	content, ok := response.Content[kind]
	if !ok && (a.text != "" || len(response.Content) > 0) {
		t.Errorf("%s %s: %d: the document has no content %q", method, target, a.code, kind)
		return
	}
	if kind != "application/json" {
		return
	}
	var v any
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return
	}
	if err := openAPI().check(&content.Schema, v); err != nil {
		t.Errorf("%s %s: %d %s: %v", method, target, a.code, a.text, err)
	}
}

// check returns an error if v does not match s.
func (d document) check(s *schema, v any) error {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		if s = d.Components.Schemas[name]; s == nil {
			return fmt.Errorf("no schema %s", name)
		}
	}
	if !s.allows(typeOf(v)) {
		return fmt.Errorf("%v is not %v", v, s.Type)
	}
	switch v := v.(type) {
	case string:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			return fmt.Errorf("%q is none of %q", v, s.Enum)
		}
	case []any:
		for _, item := range v {
			if err := d.check(s.Items, item); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.checkObject(s, v)
	}
	return nil
}

func (d document) checkObject(s *schema, v map[string]any) error {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name, value := range v {
		p := s.Properties[name]
		switch {
		case p != nil:
			if err := d.check(p, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case s.Closed != nil && !*s.Closed:
			return fmt.Errorf("%s is not in the schema", name)
		}
	}
	return nil
}

func (s *schema) allows(kind string) bool {
	if list, ok := s.Type.([]any); ok {
		return slices.Contains(list, any(kind))
	}
	return s.Type == kind || s.Type == "number" && kind == "integer"
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// The document has exactly the paths and methods of the server, except Terraform's methods, which OpenAPI does not
// allow.
func TestDocumentIsComplete(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		text := w.want(http.StatusOK, "GET", "/v1/openapi.json", "").text
		if onDisk, _ := os.ReadFile("openapi.json"); text != string(onDisk) {
			t.Error("the server serves another document")
		}
		documented := make(map[string]bool)
		for template, methods := range openAPI().Paths {
			for method := range methods {
				if method != "parameters" {
					documented[strings.ToUpper(method)+" "+template] = true
				}
			}
		}
		for _, route := range w.server.Routes() {
			if !documented[route] && !strings.Contains(route, "LOCK ") {
				t.Errorf("%s is not documented", route)
			}
			delete(documented, route)
		}
		for route := range documented {
			t.Errorf("%s is documented, and not served", route)
		}
	})
}

// The server reads every documented parameter for a time: it refuses a negative value, and the message names the
// parameter.
func TestParametersAreDocumented(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		for template, methods := range openAPI().Paths {
			for method := range methods {
				if method == "parameters" {
					continue
				}
				o := openAPI().operation(method, strings.Replace(template, "{key}", "k", 1))
				for _, p := range o.Parameters {
					if p.In != "query" || !strings.HasSuffix(p.Name, "_ms") {
						continue
					}
					target := strings.Replace(template, "{key}", "k", 1) + "?owner=o&" + p.Name + "=-1"
					if a := w.want(400, strings.ToUpper(method), target, ""); !strings.Contains(a.body.Message, p.Name) {
						t.Errorf("%s: %s", target, a.text)
					}
				}
			}
		}
	})
}

// A request with a parameter that its path does not have, or has twice, is refused before anything else. Otherwise a
// misspelt "shared" would acquire an exclusive lease.
func TestUnknownParameters(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		names := strings.Fields("owner ttl_ms wait_ms shared label lease retry prefix key ttl Owner")
		for template, methods := range openAPI().Paths {
			for method := range methods {
				if method == "parameters" || !strings.HasPrefix(template, "/v1/locks") {
					continue
				}
				path := strings.Replace(template, "{key}", "k", 1)
				method = strings.ToUpper(method)
				documented := make(map[string]bool)
				for _, p := range openAPI().operation(strings.ToLower(method), path).Parameters {
					documented[p.Name] = p.In == "query"
				}
				for _, name := range names {
					target := path + "?" + name + "=1"
					if documented["owner"] && name != "owner" {
						target += "&owner=o"
					}
					a := w.call(method, target, "")
					unknown := a.body.Message == fmt.Sprintf("invalid: unknown parameter %q", name)
					if unknown == documented[name] || unknown && a.code != http.StatusBadRequest {
						t.Errorf("%s %s: %d %s", method, target, a.code, a.text)
					}
				}
			}
		}
		if a := w.want(http.StatusBadRequest, "PUT", "/v1/locks/k2?owner=a&owner=b", ""); !strings.Contains(a.text, "owner") {
			t.Error(a.text)
		}
	})
}
