package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-class A -p 2 -limit 1m -cache /c", ""},
		{"-p 0", "must be above 0"},
		{"-limit 0s", "must be above 0"},
		{"A", `unexpected arguments: ["A"]`},
	} {
		s, err := parse(strings.Fields(tc.args))
		switch {
		case tc.want == "" && (err != nil || s.classes != "A" || s.parallel != 2 || s.cache != "/c"):
			t.Errorf("%q: got %+v, %v", tc.args, s, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%q: got the error %v, want %q", tc.args, err, tc.want)
		}
	}
}
