// Package locktests contains the tests of package lock that need servers or modules of others. In package lock, these
// tests would add the modules to the module graph of every user, because "go mod tidy" loads the tests of all imported
// packages.
package locktests
