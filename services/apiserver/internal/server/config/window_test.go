package config

import "testing"

func TestWindow(t *testing.T) {
	for name, test := range map[string]struct {
		give, want Window
		history    int64
		bad        bool
	}{
		"defaults":        {want: Window{Events: 8192, Bytes: 16 << 20}, history: 10_000},
		"small":           {give: Window{Events: 10, Bytes: 1000}, want: Window{Events: 10, Bytes: 1000}, history: 10_000},
		"large":           {give: Window{Events: 90_000}, want: Window{Events: 90_000, Bytes: 16 << 20}, history: 90_000},
		"negative events": {give: Window{Events: -1}, bad: true},
		"negative bytes":  {give: Window{Bytes: -1}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.give
			if err := got.complete(); (err != nil) != test.bad {
				t.Fatalf("complete: %v", err)
			}
			if !test.bad && (got != test.want || got.History() != test.history) {
				t.Errorf("got %+v with a history of %d", got, got.History())
			}
		})
	}
}
