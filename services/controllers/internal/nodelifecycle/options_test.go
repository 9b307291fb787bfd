package nodelifecycle

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestOptionsAreChecked(t *testing.T) {
	if err := DefaultOptions().Check(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for flag, spoil := range map[string]func(*Options){
		"--node-monitor-grace-period":    func(o *Options) { o.MonitorGrace = time.Millisecond },
		"--node-startup-grace-period":    func(o *Options) { o.StartupGrace = -time.Hour },
		"--node-eviction-rate":           func(o *Options) { o.EvictionRate = math.NaN() },
		"--secondary-node-eviction-rate": func(o *Options) { o.SecondaryEvictionRate = -1 },
		"--large-cluster-size-threshold": func(o *Options) { o.LargeZone = -1 },
		"--unhealthy-zone-threshold":     func(o *Options) { o.UnhealthyShare = 1.01 },
	} {
		o := DefaultOptions()
		spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("a wrong %s: %v", flag, err)
		}
	}
}

// TestSpeedFollowsTheOptions counts the nodes of a zone that are given up in a minute.
func TestSpeedFollowsTheOptions(t *testing.T) {
	for name, c := range map[string]struct {
		set         func(*Options)
		lost, ready int
		want        int
	}{
		"a higher rate":                 {func(o *Options) { o.EvictionRate = 1 }, 70, 300, 60},
		"no evictions":                  {func(o *Options) { o.EvictionRate = 0 }, 70, 300, 0},
		"a smaller share is unhealthy":  {func(o *Options) { o.UnhealthyShare = 0.1 }, 10, 30, 0},
		"a smaller zone is large":       {func(o *Options) { o.LargeZone, o.SecondaryEvictionRate = 10, 0.05 }, 10, 5, 3},
		"a large zone without a second": {func(o *Options) { o.SecondaryEvictionRate = 0 }, 60, 30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := DefaultOptions()
			c.set(&o)
			z := newZones(o)
			fill(z, "z", c.lost, c.ready)
			given := 0
			for second := range 60 {
				for i := range c.lost {
					node := inZone("z", i)
					if z.admitted[node.Name] {
						continue
					}
					if admitted, _ := z.admit(node, time.Unix(int64(1000+second), 0)); admitted {
						given++
					}
				}
			}
			if given != c.want {
				t.Errorf("%d nodes were given up, want %d", given, c.want)
			}
		})
	}
}

// TestGraceFollowsTheOptions: a silent node is lost after its grace period, and one that never reported
// after that of its start.
func TestGraceFollowsTheOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions()
		o.MonitorGrace, o.StartupGrace = 10*time.Second, 20*time.Second
		p := startWith(t, o)
		p.Load(node("silent", ready()), node("new"))
		unknown := func(name string) bool {
			c := condition(controltest.Get[*corev1.Node](p, "", name), corev1.NodeReady)
			return c != nil && c.Status == corev1.ConditionUnknown
		}
		for _, step := range []struct {
			wait        time.Duration
			silent, new bool
		}{
			{9 * time.Second, false, false}, {2 * time.Second, true, false},
			{8 * time.Second, true, false}, {2 * time.Second, true, true},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			if silent, born := unknown("silent"), unknown("new"); silent != step.silent || born != step.new {
				t.Errorf("unknown are the silent node: %t, want %t, and the new one: %t, want %t", silent, step.silent, born, step.new)
			}
		}
	})
}
