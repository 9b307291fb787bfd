package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// withMounted returns a plane where a pod's volume is attached and mounted, before the pod ends.
func withMounted(t *testing.T, options Options, node *corev1.Node) *controltest.Plane {
	t.Helper()
	p := plane(t, options, node, aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
	answer(p, "a", isAttached)
	setNode(p, "a", using(volumeName))
	return p
}

// TestAttachFails checks that a failure is told and tried again more and more slowly, and that nothing waits
// once the attacher succeeds.
func TestAttachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		answer(p, "a", cannotAttach("no disk"))
		time.Sleep(10 * time.Minute)
		if got, want := told(p, failed), []string{`p: AttachVolume.Attach failed for volume "v-c" : no disk`}; !slices.Equal(got, want) {
			t.Errorf("the Events are %q, want %q", got, want)
		}
		times := int32(0)
		for _, e := range controltest.List[*corev1.Event](p) {
			times += e.Count
		}
		if times < 8 || times > 16 { // 0.5 s, doubled up to 122 s.
			t.Errorf("%d failures within 10 minutes", times)
		}
		expect(t, p, "failing", driver+" a")
		expectListed(t, p, "failing", "a")
		answer(p, "a", isAttached)
		expectListed(t, p, "attached", "a", volumeName)
	})
}

// TestAttachTimesOut checks that an attacher that says nothing is given up after two minutes, and that what
// it attached perhaps is detached when nobody needs it.
func TestAttachTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		time.Sleep(operationTimeout - 2*time.Second)
		if got := told(p, failed); len(got) != 0 {
			t.Fatalf("before the timeout the Events are %q", got)
		}
		time.Sleep(3 * time.Second)
		want := []string{`p: AttachVolume.Attach failed for volume "v-c" : timed out waiting for external-attacher of csi.example.com CSI driver to attach volume h-c`}
		if got := told(p, failed); !slices.Equal(got, want) {
			t.Fatalf("the Events are %q, want %q", got, want)
		}
		ends(p, "p")
		expect(t, p, "an operation runs", driver+" a")
		time.Sleep(operationTimeout)
		speak(p)
		expect(t, p, "after the pod")
	})
}

// TestAttachOfWhatGoesAway checks the failures of an attachment that is being deleted, or cannot be written.
func TestAttachOfWhatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		var refuse atomic.Bool
		refuse.Store(true)
		p.Fail(func(call client.Call) error {
			if refuse.Load() && call.Verb == "create" && call.Kind.Resource == "volumeattachments" {
				return errors.New("no room")
			}
			return nil
		})
		run(p, Options{})
		load(p, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		if got, want := told(p, failed), []string{`p: AttachVolume.Attach failed for volume "v-c" : kubernetes.io/csi: attacher.Attach failed: no room`}; !slices.Equal(got, want) {
			t.Errorf("the Events are %q, want %q", got, want)
		}
		refuse.Store(false)
		time.Sleep(time.Second)
		expect(t, p, "written", driver+" a")
		controltest.Change(p, "", attachmentName(driver, "h-c", "a"), func(a *storagev1.VolumeAttachment) { a.Finalizers = []string{"example.com/attacher"} })
		remove(t, p, attachmentName(driver, "h-c", "a"))
		settle()
		if got, want := told(p, failed), `p: AttachVolume.Attach failed for volume "v-c" : volume attachment is being deleted`; !slices.Contains(got, want) {
			t.Errorf("the Events are %q, want %q", got, want)
		}
		controltest.Change(p, "", attachmentName(driver, "h-c", "a"), func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		time.Sleep(5 * time.Second)
		expect(t, p, "made anew", driver+" a")
	})
}

func remove(t *testing.T, p *controltest.Plane, name string) {
	t.Helper()
	if err := client.Of[*storagev1.VolumeAttachment](p.Client).Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestDetachFails checks that a volume whose detach failed is not listed, is tried again, and comes back
// only by another attach.
func TestDetachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withMounted(t, Options{}, aNode("a"))
		controltest.Change(p, "", attachmentName(driver, "h-c", "a"), func(a *storagev1.VolumeAttachment) { a.Finalizers = []string{"example.com/attacher"} })
		ends(p, "p")
		setNode(p, "a", using())
		answer(p, "a", func(a *storagev1.VolumeAttachment) { a.Status.DetachError = &storagev1.VolumeError{Message: "busy"} })
		time.Sleep(time.Minute)
		expect(t, p, "failing", driver+" a")
		expectListed(t, p, "failing", "a")
		deletions := 0
		for _, write := range writesOf(p) {
			if write == "delete volumeattachments" {
				deletions++
			}
		}
		if deletions < 4 || deletions > 9 {
			t.Errorf("%d deletions within a minute", deletions)
		}
		load(p, aPod("q", "a", "c"))
		time.Sleep(time.Minute)
		if got, want := told(p, failed), []string{`q: AttachVolume.Attach failed for volume "v-c" : volume attachment is being deleted`}; !slices.Equal(got, want) {
			t.Errorf("the Events are %q, want %q", got, want)
		}
		controltest.Change(p, "", attachmentName(driver, "h-c", "a"), func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		time.Sleep(3 * time.Minute)
		answer(p, "a", isAttached)
		expectListed(t, p, "attached again", "a", volumeName)
	})
}

// TestForce checks how long a volume that is in use stays on a node, by the node's state and the options.
func TestForce(t *testing.T) {
	taint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	}
	unready := func(n *corev1.Node) { setReady(n, corev1.ConditionUnknown) }
	for name, tt := range map[string]struct {
		options Options
		spec    func(*corev1.Node)
		status  func(*corev1.Node)
		gone    bool
		// after is when the volume is detached; never if 0.
		after  time.Duration
		reason string
	}{
		"ready":               {},
		"not ready":           {status: unready, after: maxUnmountWait, reason: timeout},
		"not ready, disabled": {options: Options{DisableForceDetach: true}, status: unready},
		"gone":                {gone: true, after: maxUnmountWait, reason: timeout},
		"gone, disabled":      {options: Options{DisableForceDetach: true}, gone: true},
		"out of service":      {options: Options{DisableForceDetach: true}, spec: taint, after: time.Second, reason: gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				registry := prometheus.NewRegistry()
				p.Config.Registerer = registry
				run(p, tt.options)
				load(p, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
				answer(p, "a", isAttached)
				setNode(p, "a", using(volumeName))
				if tt.spec != nil {
					controltest.Change(p, "", "a", tt.spec)
				}
				if tt.status != nil {
					setNode(p, "a", tt.status)
				}
				if tt.gone {
					p.Remove(aNode("a"))
					settle()
				}
				ends(p, "p")
				if tt.after == 0 {
					time.Sleep(time.Hour)
					expect(t, p, "after an hour", driver+" a")
					return
				}
				if tt.after > time.Minute {
					time.Sleep(tt.after - 5*time.Second)
					expect(t, p, "before its time", driver+" a")
				}
				time.Sleep(6 * time.Second)
				expect(t, p, "after its time")
				if got, want := series(t, registry, "attach_detach_controller_attachdetach_controller_forced_detaches"), []string{"1 " + tt.reason}; !slices.Equal(got, want) {
					t.Errorf("the forced detaches are %q, want %q", got, want)
				}
			})
		})
	}
}

// TestComesBackInTime checks that a pod that comes back ends the wait for the node.
func TestComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withMounted(t, Options{}, aNode("a"))
		setNode(p, "a", func(n *corev1.Node) { setReady(n, corev1.ConditionUnknown) })
		ends(p, "p")
		time.Sleep(maxUnmountWait - time.Minute)
		load(p, aPod("q", "a", "c"))
		time.Sleep(time.Hour)
		expect(t, p, "another pod", driver+" a")
		ends(p, "q")
		time.Sleep(maxUnmountWait - time.Minute)
		expect(t, p, "the wait begins anew", driver+" a")
		expectListed(t, p, "the wait begins anew", "a", volumeName)
	})
}

// TestNodeIsAsked checks that a node that mounts a volume at the last moment, unknown to the cache, keeps it.
func TestNodeIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Node", 10*time.Second)
		run(p, Options{})
		p.Load(aNode("a"))
		time.Sleep(time.Minute)
		load(p, aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		answer(p, "a", isAttached)
		time.Sleep(time.Minute)
		setNode(p, "a", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
		time.Sleep(time.Minute)
		setNode(p, "a", using(volumeName))
		ends(p, "p")
		time.Sleep(5 * time.Minute)
		expect(t, p, "in use", driver+" a")
		setNode(p, "a", using())
		time.Sleep(5 * time.Minute)
		expect(t, p, "unmounted")
	})
}

// TestAnotherTerm checks what a term takes up from the one before.
func TestAnotherTerm(t *testing.T) {
	attachedTo := func(v pv, node string, change ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
		a := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentName(driver, v.Spec.CSI.VolumeHandle, node), UID: "va"},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: node, Attacher: driver, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}},
		}
		isAttached(a)
		for _, f := range change {
			f(a)
		}
		return a
	}
	lists := func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volumeName}} }
	inline := aVolume("inline")
	for name, tt := range map[string]struct {
		objs []scheme.Object
		// then is what changes later; left and list are expected in the end.
		then       func(p *controltest.Plane)
		left, list []string
		writes     []string
	}{
		"all is well": {
			objs: []scheme.Object{aNode("a", lists, using(volumeName)), aVolume("c"), aClaim("c"), aPod("p", "a", "c"), attachedTo(aVolume("c"), "a")},
			left: []string{driver + " a"}, list: []string{volumeName},
		},
		"a pod that is gone": {
			objs:   []scheme.Object{aNode("a", lists), aVolume("c"), aClaim("c"), attachedTo(aVolume("c"), "a")},
			writes: []string{"patch nodes/status", "delete volumeattachments"},
		},
		"a node that still uses the volume": {
			objs: []scheme.Object{aNode("a", lists, using(volumeName)), aVolume("c"), aClaim("c"), attachedTo(aVolume("c"), "a")},
			left: []string{driver + " a"}, list: []string{volumeName},
		},
		"an attachment that the node does not list": {
			objs: []scheme.Object{aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"), attachedTo(aVolume("c"), "a")},
			left: []string{driver + " a"}, list: []string{volumeName}, writes: []string{"patch nodes/status"},
		},
		"such an attachment without a pod": {
			objs: []scheme.Object{aNode("a"), aVolume("c"), aClaim("c"), attachedTo(aVolume("c"), "a")},
			then: func(p *controltest.Plane) {
				controltest.Change(p, "", "a", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
			},
			writes: []string{"update nodes", "delete volumeattachments"},
		},
		"an attachment to a node that is gone": {
			objs:   []scheme.Object{aVolume("c"), aClaim("c"), attachedTo(aVolume("c"), "a")},
			then:   func(*controltest.Plane) { time.Sleep(maxUnmountWait) },
			writes: []string{"delete volumeattachments"},
		},
		"an inline volume": {
			objs: []scheme.Object{aNode("a"), attachedTo(inline, "a", func(a *storagev1.VolumeAttachment) {
				a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &inline.Spec}
			})},
			then: func(p *controltest.Plane) {
				controltest.Change(p, "", "a", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
			},
			writes: []string{"update nodes", "delete volumeattachments"},
		},
		"an attachment of another maker": {
			objs: []scheme.Object{aNode("a"), aVolume("c"), aClaim("c"), attachedTo(aVolume("c"), "a", func(a *storagev1.VolumeAttachment) { a.Name = "by-hand" })},
			left: []string{driver + " a"},
		},
		"an attachment whose volume is gone": {
			objs: []scheme.Object{aNode("a"), attachedTo(aVolume("c"), "a")},
			left: []string{driver + " a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, tt.objs...)
				run(p, Options{})
				settle()
				if tt.then != nil {
					tt.then(p)
				}
				time.Sleep(5 * time.Second)
				expect(t, p, "in the end", tt.left...)
				if _, err := client.Of[*corev1.Node](p.Client).Get(t.Context(), "", "a", metav1.GetOptions{}); err == nil {
					expectListed(t, p, "in the end", "a", tt.list...)
				}
				if got := writesOf(p); !slices.Equal(got, tt.writes) {
					t.Errorf("the writes are %q, want %q", got, tt.writes)
				}
			})
		})
	}
}

// TestTermAfterTerm checks that one controller takes up its own work.
func TestTermAfterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		runner := p.Runner(func(d controller.Deps) *controller.Spec { return New(d, Options{SyncPeriod: DefaultSyncPeriod}) })
		p.Start()
		stop := term(t, runner)
		settle()
		answer(p, "a", isAttached)
		setNode(p, "a", using(volumeName))
		stop()
		p.ClearCalls()
		defer term(t, runner)()
		time.Sleep(5 * time.Minute)
		if got := writesOf(p); len(got) != 0 {
			t.Errorf("the second term writes %q", got)
		}
		ends(p, "p")
		setNode(p, "a", using())
		expect(t, p, "after the pod")
	})
}

// term runs a controller until the returned function is called.
func term(t *testing.T, runner *controller.Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// speak makes a node report its status, as before.
func speak(p *controltest.Plane) {
	controltest.Change(p, "", "a", func(n *corev1.Node) { n.Labels = map[string]string{"spoke": time.Now().String()} })
	settle()
}

// TestSync checks that an attachment that somebody deletes is made anew within a period, unless that is
// disabled, and that a node's list is restored.
func TestSync(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		t.Run(fmt.Sprint("disabled ", disabled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := withMounted(t, Options{DisableSync: disabled}, aNode("a"))
				remove(t, p, attachmentName(driver, "h-c", "a"))
				setNode(p, "a", func(n *corev1.Node) { n.Status.VolumesAttached = nil })
				expect(t, p, "at once")
				time.Sleep(DefaultSyncPeriod + time.Second)
				if disabled {
					expect(t, p, "after a period")
					return
				}
				expect(t, p, "after a period", driver+" a")
				answer(p, "a", isAttached)
				expectListed(t, p, "after a period", "a", volumeName)
			})
		})
	}
}

// TestMetrics checks what is counted.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		run(p, Options{})
		load(p, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"), podWith("q", "a", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "inline.example.com"}}))
		answer(p, "a", cannotAttach("no"))
		answer(p, "a", isAttached)
		for name, want := range map[string][]string{
			"attachdetach_controller_total_volumes": {
				"1 kubernetes.io/csi:csi.example.com actual_state_of_world", "1 kubernetes.io/csi:csi.example.com desired_state_of_world",
			},
			"storage_count_attachable_volumes_in_use": {"1 a kubernetes.io/csi:csi.example.com", "1 a kubernetes.io/csi:inline.example.com"},
			"storage_operation_duration_seconds": {
				"1 false volume_attach fail-unknown kubernetes.io/csi:csi.example.com", "1 false volume_attach success kubernetes.io/csi:csi.example.com",
			},
		} {
			if got := series(t, registry, name); !slices.Equal(got, want) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

// series returns the value, or the number of observations, and the labels' values of each series of a metric.
func series(t *testing.T, registry *prometheus.Registry, name string) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			text := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()))
			for _, label := range m.GetLabel() {
				text += " " + label.GetValue()
			}
			got = append(got, text)
		}
	}
	return got
}
