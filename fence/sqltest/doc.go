// Package sqltest has nothing but tests: of package fence with databases whose drivers the library itself does not
// need.
package sqltest
