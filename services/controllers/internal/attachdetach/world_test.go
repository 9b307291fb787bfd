package attachdetach

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	driver = "csi.example.com"
	// volumeName is that of the volume of the claim c.
	volumeName = "kubernetes.io/csi/csi.example.com^h-c"
)

// plane runs the controller, inside a bubble.
func plane(t *testing.T, options Options, objs ...scheme.Object) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	run(p, options)
	load(p, objs...)
	return p
}

// run starts the controller.
func run(p *controltest.Plane, options Options) (stop func()) {
	p.Allow("list watch /persistentvolumes", "list watch /persistentvolumeclaims", "get list watch /nodes", "patch /nodes/status", "list watch /pods",
		"get create delete list watch storage.k8s.io/volumeattachments", "get list watch storage.k8s.io/csidrivers", controltest.Events)
	if options.SyncPeriod == 0 {
		options.SyncPeriod = DefaultSyncPeriod
	}
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, options) })
	return p.Start()
}

// load gives the controller one object after the other.
func load(p *controltest.Plane, objs ...scheme.Object) {
	for _, obj := range objs {
		p.Load(obj)
		settle()
	}
}

func aNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Annotations: map[string]string{managed: "true"}}}
	setReady(n, corev1.ConditionTrue)
	for _, f := range change {
		f(n)
	}
	return n
}

func setReady(n *corev1.Node, status corev1.ConditionStatus) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
}

// using says that a node has mounted volumes.
func using(names ...corev1.UniqueVolumeName) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.VolumesInUse = names }
}

// aVolume returns the volume of a claim.
func aVolume(claim string, change ...func(pv)) pv {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-" + claim},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: claim, UID: types.UID("claim-" + claim)},
		},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func shared(v pv) { v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} }

func aClaim(name string) claim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "v-" + name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// aPod returns a pod with a claim of the same namespace.
func aPod(name, node, claim string) *corev1.Pod {
	return podWith(name, node, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

func podWith(name, node string, of corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)},
		Spec:       corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: of}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func aDriver(attachRequired bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attachRequired}}
}

// attachments returns ATTACHER NODE of each VolumeAttachment, sorted.
func attachments(p *controltest.Plane) []string {
	var got []string
	for _, a := range controltest.List[*storagev1.VolumeAttachment](p) {
		got = append(got, a.Spec.Attacher+" "+a.Spec.NodeName)
	}
	slices.Sort(got)
	return got
}

// expect compares the VolumeAttachments.
func expect(t *testing.T, p *controltest.Plane, when string, want ...string) {
	t.Helper()
	settle()
	if got := attachments(p); !slices.Equal(got, want) {
		t.Fatalf("%s: the attachments are %q, want %q", when, got, want)
	}
}

// expectListed compares what a node's status lists as attached.
func expectListed(t *testing.T, p *controltest.Plane, when, node string, want ...string) {
	t.Helper()
	settle()
	var got []string
	for _, v := range controltest.Get[*corev1.Node](p, "", node).Status.VolumesAttached {
		got = append(got, string(v.Name))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: node %s lists %q, want %q", when, node, got, want)
	}
}

// answer writes the status of the attachment of claim c's volume to a node, as an attacher does.
func answer(p *controltest.Plane, node string, change func(*storagev1.VolumeAttachment)) {
	controltest.SetStatus(p, "", attachmentName(driver, "h-c", node), change)
	settle()
}

func isAttached(a *storagev1.VolumeAttachment) {
	a.Status = storagev1.VolumeAttachmentStatus{Attached: true}
}

func cannotAttach(text string) func(*storagev1.VolumeAttachment) {
	return func(a *storagev1.VolumeAttachment) {
		a.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: text}}
	}
}

// told returns NAME: TEXT of the Events with a reason, each once, sorted.
func told(p *controltest.Plane, reason string) []string {
	var got []string
	for _, e := range controltest.List[*corev1.Event](p) {
		if e.Reason == reason {
			got = append(got, e.InvolvedObject.Name+": "+e.Message)
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

// ends makes a pod's containers end.
func ends(p *controltest.Plane, name string) {
	controltest.SetStatus(p, "default", name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	settle()
}

func setNode(p *controltest.Plane, name string, change func(*corev1.Node)) {
	controltest.SetStatus(p, "", name, change)
	settle()
}

// writesOf returns VERB RESOURCE of the writes of the controller's kinds, in their order.
func writesOf(p *controltest.Plane) []string {
	var got []string
	for _, call := range p.Writes() {
		if call.Kind.Resource == "events" {
			continue
		}
		got = append(got, strings.TrimSuffix(call.Verb+" "+call.Kind.Resource+"/"+call.Subresource, "/"))
	}
	return got
}
