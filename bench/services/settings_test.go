package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	usual := settings{services: []int{1000}, changes: 10, pause: 1200 * time.Millisecond, idle: 70 * time.Second, programs: 10 * time.Minute, repeats: 3}
	for _, tc := range []struct {
		args, fault string
		change      func(*settings)
	}{
		{"", "", func(*settings) {}},
		{
			"-kube-proxy bin/x -services 10,20,20 -changes 2 -pause 1s -idle 1ms -patience 2m -repeats 1", "",
			func(s *settings) {
				*s = settings{"bin/x", []int{10, 20, 20}, 2, time.Second, time.Millisecond, 2 * time.Minute, 1}
			},
		},
		{"-services 0,1", "must be above 0", nil},
		{"-services 20,10", "must rise", nil},
		{"-changes 0", "must be above 0", nil},
		{"-repeats -1", "must be above 0", nil},
		{"-pause 0s", "must be above 0", nil},
		{"-idle -1s", "must be above 0", nil},
		{"-patience 0s", "must be above 0", nil},
	} {
		got, err := parse(strings.Fields(tc.args))
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%q: got %v, want %q", tc.args, err, tc.fault)
			}
			continue
		}
		want := usual
		tc.change(&want)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
			t.Errorf("%q: %v, %s", tc.args, err, diff)
		}
	}
}

func TestSides(t *testing.T) {
	for path, want := range map[string]string{"": "Garboard", "bin/kube-proxy": "Garboard kube-proxy"} {
		b := &bench{settings: settings{kubeProxy: path}}
		var names []string
		for _, s := range b.both() {
			names = append(names, s.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with kube-proxy at %q the sides are %s, want %s", path, got, want)
		}
	}
}
