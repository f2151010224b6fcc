// Package sqltest has nothing but tests: of package fence, and of stores on an application's client, with drivers that
// the library itself does not need.
package sqltest
