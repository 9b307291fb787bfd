package upstream

import "strings"

// later are the fields that later issues bring. Each issue removes its own.
var later []string

func skipped(path string) bool {
	for _, prefix := range later {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
