package bugmatrix

import "slices"

// Cover returns a small subset of checks with at least one check of every row, in the order of checks. All of always
// belong to the subset.
//
// It adds the only check of each row that has just one, then again and again the check that finds most of the remaining
// rows, the first of checks among equals. In the end it removes each check without which every row still has one, the
// last first. The result need not be the smallest, but no check of it can be left out. A row without any check of
// checks is ignored.
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

// count returns how many of rows have check, and no check of core.
func count(rows [][]string, check string, core map[string]bool) (n int) {
	for _, row := range rows {
		if slices.Contains(row, check) && !slices.ContainsFunc(row, func(c string) bool { return core[c] }) {
			n++
		}
	}
	return n
}
