// Package sqltest contains only tests: of package fence on databases whose drivers the library itself does not need.
package sqltest
