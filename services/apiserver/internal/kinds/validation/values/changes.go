package values

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/diff"
)

// compared bounds the JSON, in bytes, of each value that Changes compares: the time grows with its square.
const compared = 32 << 10

// Changes returns the lines of JSON in which now differs from before, as Kubernetes shows them in an
// error about a field that must not change, or a sentence if a value has more than 32 KB of JSON.
func Changes(before, now any) string {
	for _, value := range []any{before, now} {
		if text, err := json.Marshal(value); err != nil || len(text) > compared {
			return fmt.Sprintf("(the differences are not shown: more than %d KB)", compared>>10)
		}
	}
	return diff.Diff(before, now)
}
