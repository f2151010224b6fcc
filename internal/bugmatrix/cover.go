package bugmatrix

import "slices"

// Cover returns a small subset of checks that contains at least one check of every row, in the order of checks. The
// subset contains all of always.
//
// Cover first adds the check of each row that has only one. Then it repeatedly adds the check that finds most of the
// remaining rows; among equals, it adds the first. Finally it removes each added check that no row needs, starting with
// the last. The result need not be the smallest, but none of the added checks can be removed. Cover ignores rows that
// contain none of checks.
func Cover(checks []string, rows [][]string, always []string) []string {
	core := make(map[string]bool)
	for _, c := range always {
		core[c] = true
	}
	var added []string
	add := func(check string) {
		if !core[check] {
			core[check] = true
			added = append(added, check)
		}
	}
	for _, row := range rows {
		if len(row) == 1 && slices.Contains(checks, row[0]) {
			add(row[0])
		}
	}
	for {
		best, most := "", 0
		for _, c := range checks {
			if n := count(rows, c, core); n > most {
				best, most = c, n
			}
		}
		if most == 0 {
			break
		}
		add(best)
	}
	for _, c := range slices.Backward(added) {
		delete(core, c)
		if count(rows, c, core) > 0 {
			core[c] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(checks), func(c string) bool { return !core[c] })
}

// count returns how many rows contain check and no check of core.
func count(rows [][]string, check string, core map[string]bool) (n int) {
	for _, row := range rows {
		if slices.Contains(row, check) && !slices.ContainsFunc(row, func(c string) bool { return core[c] }) {
			n++
		}
	}
	return n
}
