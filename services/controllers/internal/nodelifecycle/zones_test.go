package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// inZone returns a node of a zone.
func inZone(zone string, number int) *corev1.Node {
	n := node(fmt.Sprint(zone, "-", number))
	n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	return n
}

// fill sets the nodes of a zone: those that are lost come first.
func fill(z *zones, zone string, lost, ready int) {
	for i := range lost + ready {
		z.set(inZone(zone, i), i >= lost)
	}
}

// TestSpeedOfGivingUp counts the nodes of a zone that are given up in ten minutes, when every
// second each of them asks.
func TestSpeedOfGivingUp(t *testing.T) {
	for _, c := range []struct {
		name        string
		lost, ready int
		want        int
	}{
		{"a healthy zone, one each ten seconds", 100, 300, 60},
		{"fewer than that", 20, 80, 20},
		{"a partly broken small zone, none", 10, 5, 0},
		{"a partly broken large zone, one each hundred seconds", 60, 30, 6},
		{"a broken zone of a plane with others, as a healthy one", 100, 0, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			z := newZones(DefaultOptions())
			fill(z, "other", 0, 3)
			fill(z, "z", c.lost, c.ready)
			given := map[int]bool{}
			start := time.Unix(1000, 0)
			for second := range 600 {
				now := start.Add(time.Duration(second) * time.Second)
				for i := range c.lost {
					admitted, wait := z.admit(inZone("z", i), now)
					if given[i] && !admitted {
						t.Fatalf("node %d was given up, and must wait again", i)
					}
					if admitted {
						given[i] = true
					} else if wait < time.Second || wait > longestWaitForAdmission {
						t.Fatalf("node %d waits for %v", i, wait)
					}
				}
			}
			if len(given) != c.want {
				t.Errorf("%d nodes were given up, want %d", len(given), c.want)
			}
		})
	}
}

// TestAdmissionEndsWithReadiness: a node that was ready meanwhile, or was removed, waits for its
// turn again.
func TestAdmissionEndsWithReadiness(t *testing.T) {
	for name, end := range map[string]func(z *zones){
		"it was ready":   func(z *zones) { z.set(inZone("z", 0), true) },
		"it was removed": func(z *zones) { z.remove("z-0") },
	} {
		t.Run(name, func(t *testing.T) {
			z, now := newZones(DefaultOptions()), time.Unix(1000, 0)
			fill(z, "z", 2, 8)
			if admitted, _ := z.admit(inZone("z", 0), now); !admitted {
				t.Fatal("the first node must wait")
			}
			end(z)
			z.set(inZone("z", 0), false)
			if admitted, wait := z.admit(inZone("z", 0), now); admitted || wait != 10*time.Second {
				t.Errorf("it is admitted: %t, and waits for %v", admitted, wait)
			}
		})
	}
}

// TestZonesChange: a change is reported when the state of a zone, or of all together, changes.
func TestZonesChange(t *testing.T) {
	z := newZones(DefaultOptions())
	for i, step := range []struct {
		zone   string
		number int
		ready  bool
		want   bool
	}{
		{"a", 0, true, false},  // the first node of a zone
		{"a", 1, true, false},  // another
		{"a", 1, false, false}, // one of two is lost
		{"a", 0, false, true},  // all are lost, and the plane with them
		{"b", 0, true, true},   // the plane has a zone again
		{"b", 0, true, false},  // nothing new
		{"a", 0, true, true},   // the zone recovers
	} {
		if got := z.set(inZone(step.zone, step.number), step.ready); got != step.want {
			t.Errorf("step %d: a change is reported: %t", i, got)
		}
	}
	if z.remove("b-0") || z.allDown() {
		t.Error("removing a healthy zone is a change")
	}
	if !z.remove("a-0") || !z.allDown() {
		t.Error("removing the last healthy node is none")
	}
	if !z.remove("a-1") || z.allDown() {
		t.Error("a plane without nodes counts as down")
	}
}
