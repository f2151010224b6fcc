package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// checkNames returns an error if an object in the next value has a name twice. Package encoding/json would merge the
// two values: of two lists of clients, a client in the second list could keep the rights of one in the first. The value
// must be valid JSON.
func checkNames(d *json.Decoder) error {
	token, err := d.Token()
	opening, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	var names []string
	for d.More() {
		if opening == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := token.(string)
			if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
				return fmt.Errorf("%q is given twice in one object", name)
			}
			names = append(names, name)
		}
		if err := checkNames(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of the object or array
	return err
}
