package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		args, fault string
		want        settings
	}{
		{"", "", settings{"", 1000, 20000, []int{1, 16}, 200, 3}},
		{"-coredns bin/x -services 6 -names 2 -clients 3 -endpoints 4 -repeats 5", "", settings{"bin/x", 6, 2, []int{3}, 4, 5}},
		{"-services 0", "must be above 0", settings{}},
		{"-names -1", "must be above 0", settings{}},
		{"-clients 4,0", "must be above 0", settings{}},
		{"-endpoints 0", "must be above 0", settings{}},
		{"-repeats 0", "must be above 0", settings{}},
	} {
		got, err := parse(strings.Fields(tc.args))
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%q: got %v, want %q", tc.args, err, tc.fault)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
			t.Errorf("%q: %v, %s", tc.args, err, diff)
		}
	}
}
