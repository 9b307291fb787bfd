package localpath

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// run runs the controller on a plane that holds objs. It creates the class of the given name.
func run(t *testing.T, className string, objs ...scheme.Object) *controltest.Plane {
	p := controltest.New(t, objs...)
	p.Allow("get list watch update /persistentvolumeclaims", "get list watch create update delete /persistentvolumes",
		"get list watch create storage.k8s.io/storageclasses", "get list watch /nodes", controltest.Events)
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, className) })
	p.Start()
	settle()
	return p
}

func aNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{localvolume.NodeAnnotation: "/var/lib/volumes"},
	}}
	for _, f := range change {
		f(n)
	}
	return n
}

func aClass(change ...func(class)) class {
	mode, policy := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	c := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: localvolume.Provisioner, VolumeBindingMode: &mode, ReclaimPolicy: &policy,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func aClaim(change ...func(claim)) claim {
	filesystem, of := corev1.PersistentVolumeFilesystem, "local"
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "1234", Annotations: map[string]string{
			volume.AnnStorageProvisioner: localvolume.Provisioner, volume.AnnSelectedNode: "n1",
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &filesystem, StorageClassName: &of,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// aVolume returns the volume that the claim gets, as it is after the claim is gone.
func aVolume(change ...func(pv)) pv {
	v := newVolume(aClaim(), aClass(), "n1", "/var/lib/volumes")
	v.UID, v.Status.Phase = "volume", corev1.VolumeReleased
	for _, f := range change {
		f(v)
	}
	return v
}

func TestAClaimGetsAVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1"), aClass(), aClaim(func(c claim) { c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod} }))
		v := controltest.Get[pv](p, "", "pvc-1234")
		host, _ := localvolume.HostOf(v)
		size := v.Spec.Capacity[corev1.ResourceStorage]
		ref := v.Spec.ClaimRef
		switch {
		case v.Spec.Local == nil || v.Spec.Local.Path != "/var/lib/volumes/pvc-1234" || host != "n1",
			!slices.Equal(v.Finalizers, []string{localvolume.Finalizer}) || v.Annotations[volume.AnnDynamicallyProvisioned] != localvolume.Provisioner,
			ref == nil || ref.UID != "1234" || ref.Namespace != "default" || ref.Name != "data" || ref.Kind != "PersistentVolumeClaim",
			size.String() != "1Gi" || !slices.Equal(v.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}),
			v.Spec.StorageClassName != "local" || *v.Spec.VolumeMode != corev1.PersistentVolumeFilesystem,
			v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
			t.Errorf("the volume is %+v", v)
		}
		if got := p.Events("Provisioning"); !slices.Equal(got, []string{`External provisioner is provisioning volume for claim "default/data"`}) {
			t.Errorf("Provisioning: %q", got)
		}
		if got := p.Events("ProvisioningSucceeded"); !slices.Equal(got, []string{"Successfully provisioned volume pvc-1234"}) {
			t.Errorf("ProvisioningSucceeded: %q", got)
		}
		if got := p.Events("ProvisioningFailed"); len(got) != 0 {
			t.Errorf("ProvisioningFailed: %q", got)
		}
	})
}

// TestFailuresBeginAtZero: the counter of a class exists before its first failure, which is thus an increase.
func TestFailuresBeginAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, aNode("n1", func(n *corev1.Node) { n.Annotations = nil }), aClass(),
			aClass(func(c class) { c.Name, c.Provisioner = "other", "example.com/disks" }))
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(func(d controller.Deps) *controller.Spec { return New(d, "") })
		p.Start()
		settle()
		failures := func() string {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, family := range families {
				if family.GetName() == "controller_persistentvolumeclaim_provision_failed_total" {
					for _, m := range family.GetMetric() {
						found += fmt.Sprintf("%s %v;", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
					}
				}
			}
			return found
		}
		if got := failures(); got != "local 0;" {
			t.Errorf("before any claim: %q", got)
		}
		p.Load(aClaim())
		settle()
		if got := failures(); got != "local 1;" {
			t.Errorf("after a failure: %q", got)
		}
	})
}

func TestRetainedVolumesHaveNoFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retain := corev1.PersistentVolumeReclaimRetain
		p := run(t, "", aNode("n1"), aClass(func(c class) { c.ReclaimPolicy = &retain }), aClaim())
		if v := controltest.Get[pv](p, "", "pvc-1234"); len(v.Finalizers) != 0 || v.Spec.PersistentVolumeReclaimPolicy != retain {
			t.Errorf("%v, %v", v.Finalizers, v.Spec.PersistentVolumeReclaimPolicy)
		}
	})
}

// TestClaimsThatGetNoVolume: the Event says why not, and a node that cannot have the volume is selected no
// more.
func TestClaimsThatGetNoVolume(t *testing.T) {
	block, immediate := corev1.PersistentVolumeBlock, storagev1.VolumeBindingImmediate
	modes := func(of ...corev1.PersistentVolumeAccessMode) func(claim) {
		return func(c claim) { c.Spec.AccessModes = of }
	}
	for name, tt := range map[string]struct {
		node  func(*corev1.Node)
		class func(class)
		claim func(claim)
		// why is what the Event says; empty if there is none.
		why         string
		rescheduled bool
	}{
		"no such node":        {node: func(n *corev1.Node) { n.Name = "n2" }, why: `node "n1" not found`, rescheduled: true},
		"no folder":           {node: func(n *corev1.Node) { n.Annotations = nil }, why: `node "n1" has no folder for local volumes`, rescheduled: true},
		"a relative folder":   {node: func(n *corev1.Node) { n.Annotations[localvolume.NodeAnnotation] = "../etc" }, why: "not an absolute, clean path", rescheduled: true},
		"another's host name": {node: func(n *corev1.Node) { n.Labels[corev1.LabelHostname] = "n2" }, why: `of node "n1" is "n2"`, rescheduled: true},
		"shared by many":      {claim: modes(corev1.ReadWriteMany), why: "access mode ReadWriteMany is not supported"},
		"also read by many":   {claim: modes(corev1.ReadWriteOnce, corev1.ReadOnlyMany), why: "access mode ReadOnlyMany is not supported"},
		"a block device":      {claim: func(c claim) { c.Spec.VolumeMode = &block }, why: "volume mode Block is not supported"},
		"a selector":          {claim: func(c claim) { c.Spec.Selector = &metav1.LabelSelector{} }, why: "claim.Spec.Selector is not supported"},
		"a copy":              {claim: func(c claim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }, why: "claim.Spec.DataSource is not supported"},
		"parameters":          {class: func(c class) { c.Parameters = map[string]string{"b": "", "a": ""} }, why: "the class has the parameters [a b]"},
		"mount options":       {class: func(c class) { c.MountOptions = []string{"ro"} }, why: `StorageClass "local" has mount options [ro]`},
		"immediate binding": {
			class: func(c class) { c.VolumeBindingMode = &immediate }, why: "set the volumeBindingMode of the class to WaitForFirstConsumer",
			claim: func(c claim) { delete(c.Annotations, volume.AnnSelectedNode) },
		},
		"no node selected yet":  {claim: func(c claim) { delete(c.Annotations, volume.AnnSelectedNode) }},
		"another's class":       {class: func(c class) { c.Provisioner = "other" }},
		"another's claim":       {claim: func(c claim) { c.Annotations[volume.AnnStorageProvisioner] = "other" }},
		"not asked for yet":     {claim: func(c claim) { delete(c.Annotations, volume.AnnStorageProvisioner) }},
		"bound":                 {claim: func(c claim) { c.Spec.VolumeName = "other" }},
		"a class that is gone":  {class: func(c class) { c.Name = "other" }},
		"a claim that is going": {claim: func(c claim) { c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, of, c := aNode("n1"), aClass(), aClaim()
				if tt.node != nil {
					tt.node(node)
				}
				if tt.class != nil {
					tt.class(of)
				}
				if tt.claim != nil {
					tt.claim(c)
				}
				selected := selectedNode(c)
				p := run(t, "", node, of, c)
				if made := controltest.List[pv](p); len(made) != 0 {
					t.Errorf("made %+v", made)
				}
				got := p.Events("ProvisioningFailed")
				if tt.why == "" && len(got) != 0 || tt.why != "" && (len(got) != 1 ||
					!strings.HasPrefix(got[0], `failed to provision volume with StorageClass "local": `) || !strings.Contains(got[0], tt.why)) {
					t.Errorf("ProvisioningFailed: %q, want %q", got, tt.why)
				}
				if tt.rescheduled {
					selected = ""
				}
				if now := selectedNode(controltest.Get[claim](p, "default", "data")); now != selected {
					t.Errorf("the selected node is %q, want %q", now, selected)
				}
			})
		})
	}
}

// TestAClaimWaitsForItsClass: what was missing asks for the reconcile when it comes.
func TestAClaimWaitsForItsClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1"), aClaim())
		p.Load(aClass())
		settle()
		controltest.Get[pv](p, "", "pvc-1234")
	})
}

// TestALostAnswerMakesNoSecondVolume: a volume that exists is left to the binder.
func TestALostAnswerMakesNoSecondVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1"), aClass(), aVolume(func(v pv) { v.Status.Phase = corev1.VolumeAvailable }), aClaim())
		if got := p.Events("Provisioning"); len(got) != 0 {
			t.Errorf("Provisioning: %q", got)
		}
		if made := controltest.List[pv](p); len(made) != 1 {
			t.Errorf("there are %d volumes", len(made))
		}
	})
}

// lists makes a node have the folder of the volume.
func lists(n *corev1.Node) {
	n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/local-volume/other", localvolume.UniqueName("pvc-1234")}
}

// TestTheObjectOutlivesTheFolder: a released volume is deleted, but its object remains until the node no
// longer lists it.
func TestTheObjectOutlivesTheFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1", lists), aVolume())
		if v := controltest.Get[pv](p, "", "pvc-1234"); v.DeletionTimestamp == nil || !localvolume.Removable(v) {
			t.Fatalf("the released volume is %+v", v)
		}
		// Other changes of the node mean nothing.
		controltest.Change(p, "", "n1", func(n *corev1.Node) { n.Labels["a"] = "b" })
		settle()
		controltest.Get[pv](p, "", "pvc-1234")
		controltest.SetStatus(p, "", "n1", func(n *corev1.Node) { n.Status.VolumesInUse = n.Status.VolumesInUse[:1] })
		settle()
		if left := controltest.List[pv](p); len(left) != 0 {
			t.Errorf("%+v is left", left)
		}
	})
}

func TestVolumesOfANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1", lists), aVolume())
		controltest.Get[pv](p, "", "pvc-1234")
		if err := client.Of[*corev1.Node](p.Client).Delete(t.Context(), "", "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if left := controltest.List[pv](p); len(left) != 0 {
			t.Errorf("%+v is left", left)
		}
	})
}

// TestAVolumeThatWasNeverUsed: a folder that was never created keeps nothing.
func TestAVolumeThatWasNeverUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, "", aNode("n1"), aVolume())
		if left := controltest.List[pv](p); len(left) != 0 {
			t.Errorf("%+v is left", left)
		}
	})
}

// TestVolumesThatStay: what is not released, is retained, or is another's is not deleted.
func TestVolumesThatStay(t *testing.T) {
	retain := func(v pv) { v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain }
	deleted := func(v pv) {
		v.DeletionTimestamp, v.Finalizers = &metav1.Time{Time: time.Now()}, append(v.Finalizers, "kubernetes.io/pv-protection")
	}
	for name, tt := range map[string]struct {
		change func(pv)
		// held is whether it has our finalizer in the end.
		held bool
	}{
		"bound":               {func(v pv) { v.Status.Phase = corev1.VolumeBound }, true},
		"available":           {func(v pv) { v.Status.Phase = corev1.VolumeAvailable }, true},
		"retained":            {retain, false},
		"retained, deleted":   {func(v pv) { retain(v); deleted(v) }, false},
		"bound, deleted":      {func(v pv) { v.Status.Phase = corev1.VolumeBound; deleted(v) }, true},
		"reclaimed only now":  {func(v pv) { v.Finalizers, v.Status.Phase = nil, corev1.VolumeBound }, true},
		"another's":           {func(v pv) { v.Annotations[volume.AnnDynamicallyProvisioned] = "other" }, true},
		"made by a human":     {func(v pv) { v.Annotations, v.Finalizers = nil, nil }, false},
		"of another provider": {func(v pv) { v.Spec.Local, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/x"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := aVolume(tt.change)
				going := v.DeletionTimestamp != nil
				p := run(t, "", aNode("n1", lists), v)
				v = controltest.Get[pv](p, "", "pvc-1234")
				if held := slices.Contains(v.Finalizers, localvolume.Finalizer); held != tt.held || (v.DeletionTimestamp != nil) != going {
					t.Errorf("finalizers %v, deleted %v", v.Finalizers, v.DeletionTimestamp)
				}
			})
		})
	}
}

func TestTheStorageClass(t *testing.T) {
	other := func(mark string) class {
		return aClass(func(c class) {
			c.Name, c.Provisioner, c.Annotations = "other", "other", map[string]string{mark: "true"}
		})
	}
	for name, tt := range map[string]struct {
		name string
		objs []scheme.Object
		// want is the mark of the default class; empty if there is no class.
		want string
	}{
		"created":                     {name: "local-path", want: "true"},
		"beside another":              {name: "local-path", objs: []scheme.Object{aClass()}, want: "true"},
		"beside a default class":      {name: "local-path", objs: []scheme.Object{other(isDefault)}, want: "false"},
		"beside an old default one":   {name: "local-path", objs: []scheme.Object{other(isDefaultBeta)}, want: "false"},
		"never changed":               {name: "local-path", objs: []scheme.Object{aClass(func(c class) { c.Name = "local-path" })}, want: "unmarked"},
		"switched off":                {objs: []scheme.Object{aClass()}},
		"never changed if not wanted": {objs: []scheme.Object{aClass(func(c class) { c.Name = "local-path" })}, want: "unmarked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := run(t, tt.name, tt.objs...)
				got := ""
				for _, c := range controltest.List[class](p) {
					if c.Name != "local-path" {
						continue
					}
					if got = c.Annotations[isDefault]; got == "" {
						got = "unmarked"
					} else if c.Provisioner != localvolume.Provisioner || *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
						*c.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
						t.Errorf("the class is %+v", c)
					}
				}
				if got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
