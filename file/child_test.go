package file_test

const roleVariable = "X"

func runRole(string) int { return 0 }
