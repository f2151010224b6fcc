package conformance

import (
	"regexp"
	"runtime"
	"strings"
)

// bubbleName returns the name of the caller's bubble as it appears in stack traces, such as "synctest bubble 7".
func bubbleName() string {
	header := make([]byte, 256)
	header = header[:runtime.Stack(header, false)]
	return string(regexp.MustCompile(`synctest bubble \d+`).Find(header))
}

// undurable returns the stacks of a few goroutines that keep the bubble's clock from moving. Such a goroutine runs, or
// is blocked by something outside the bubble.
func undurable(bubble string) string {
	const most, atMost = 8 << 20, 5
	buf := make([]byte, most)
	var shown []string
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		header, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, bubble+"]") && !strings.Contains(header, "(durable)") &&
			!strings.Contains(header, "synctest.Run") {
			shown = append(shown, stack)
		}
	}
	return strings.Join(shown[:min(len(shown), atMost)], "\n\n")
}
