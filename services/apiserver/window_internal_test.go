package apiserver

import "testing"

func TestWindowConfig(t *testing.T) {
	for name, test := range map[string]struct {
		give, want WindowConfig
		history    int64
		bad        bool
	}{
		"defaults":        {want: WindowConfig{Events: 8192, Bytes: 16 << 20}, history: 10_000},
		"small":           {give: WindowConfig{Events: 10, Bytes: 1000}, want: WindowConfig{Events: 10, Bytes: 1000}, history: 10_000},
		"large":           {give: WindowConfig{Events: 90_000}, want: WindowConfig{Events: 90_000, Bytes: 16 << 20}, history: 90_000},
		"negative events": {give: WindowConfig{Events: -1}, bad: true},
		"negative bytes":  {give: WindowConfig{Bytes: -1}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.give
			if err := got.complete(); (err != nil) != test.bad {
				t.Fatalf("complete: %v", err)
			}
			if !test.bad && (got != test.want || got.history() != test.history) {
				t.Errorf("got %+v with a history of %d", got, got.history())
			}
		})
	}
}
