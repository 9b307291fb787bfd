package followers

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	want := map[string]string{"n/a": "1", "n/b": "2"}
	for _, test := range []struct {
		name  string
		held  map[string]string
		fault string
	}{
		{name: "equal", held: map[string]string{"n/a": "1", "n/b": "2"}},
		{name: "one missing", held: map[string]string{"n/a": "1"}, fault: "n/b at 2 is missing"},
		{name: "one old", held: map[string]string{"n/a": "1", "n/b": "1"}, fault: "n/b is at 1, in etcd at 2"},
		{name: "one extra", held: map[string]string{"n/a": "1", "n/b": "2", "n/c": "3"}, fault: "n/c at 3 is not in etcd"},
	} {
		err := compare("x", test.held, want)
		if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
