package warnings

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestWarnings: a text is added once, and many or long ones are cut as Kubernetes cuts them.
func TestWarnings(t *testing.T) {
	long := func(first string) string { return first + strings.Repeat("ü", 999) }
	short := func(first string) string { return long(first)[:1+2*255] }
	for name, c := range map[string]struct {
		before []string
		add    []string
		want   []string
	}{
		"each once":               {nil, []string{"a", "b", "", "a"}, []string{"a", "b"}},
		"those of authentication": {[]string{"a", "b"}, []string{"b", "c"}, []string{"a", "b", "c"}},
		"that fit":                {nil, []string{long("a"), long("b"), long("c"), long("d")}, []string{long("a"), long("b"), long("c"), long("d")}},
		"that do not fit": {
			nil, []string{long("a"), "short", long("b"), long("c"), long("d"), long("e"), long("a")},
			[]string{short("a"), "short", short("b"), short("c"), short("d"), short("e")},
		},
		"with those of authentication": {[]string{long("a")}, []string{long("b"), long("c"), long("d"), long("e")},
			[]string{short("a"), short("b"), short("c"), short("d"), short("e")}},
		"in control characters": {nil, []string{"a\nb", "c\x00", "d"}, []string{"d"}},
	} {
		header := http.Header{}
		for _, text := range c.before {
			warning, err := utilnet.NewWarningHeader(299, "-", text)
			if err != nil {
				t.Fatal(err)
			}
			header.Add("Warning", warning)
		}
		w := New(header)
		for _, text := range c.add {
			w.Add(text)
		}
		found, errs := utilnet.ParseWarningHeaders(header.Values("Warning"))
		var got []string
		for _, warning := range found {
			got = append(got, warning.Text)
		}
		if !slices.Equal(got, c.want) || len(errs) > 0 {
			t.Errorf("%s: got %d %q, %v", name, len(got), got, errs)
		}
	}
}

// TestMostWarnings: a response has about 4,096 characters of warnings, however many there are.
func TestMostWarnings(t *testing.T) {
	header := http.Header{}
	w := New(header)
	for i := range 100 {
		w.Add(string(rune('a'+i)) + strings.Repeat("x", 500))
	}
	if got := len(header.Values("Warning")); got != maxWarnings/maxWarning {
		t.Errorf("the response has %d warnings", got)
	}
}
