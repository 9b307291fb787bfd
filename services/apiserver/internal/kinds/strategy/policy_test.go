package strategy

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

func TestCertificateRequester(t *testing.T) {
	s := certificateSigningRequest()
	c := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Username: "forged", UID: "1", Groups: []string{"system:masters"}, Extra: map[string]certificatesv1.ExtraValue{"a": {"b"}},
	}}
	c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}}
	s.PrepareForCreate(c)
	if c.Spec.Username != "" || c.Spec.UID != "" || c.Spec.Groups != nil || c.Spec.Extra != nil || c.Status.Conditions != nil {
		t.Errorf("the client's forged requester remains: %+v", c)
	}
	user := authn.User{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"x": {"y", "z"}}}
	s.Author(c, user)
	if c.Spec.Username != "ann" || c.Spec.UID != "7" || !slices.Equal(c.Spec.Groups, user.Groups) || !slices.Equal(c.Spec.Extra["x"], user.Extra["x"]) {
		t.Errorf("got requester %+v", c.Spec)
	}
}

func TestCertificateSubresources(t *testing.T) {
	s := certificateSigningRequest()
	past := metav1.NewTime(time.Unix(1e9, 0))
	approved := certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True", Reason: "Fine", LastUpdateTime: past, LastTransitionTime: past}
	old := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "a.b/c"}}
	old.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approved}

	c := old.DeepCopy()
	c.Spec.SignerName = "x.y/z"
	c.Status.Certificate = []byte("x")
	c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Odd", Status: "True"}, {Type: "Approved", Status: "True", Reason: "Changed"}}
	s.Subresources["status"].Prepare(c, old)
	odd := c.Status.Conditions[0]
	if c.Spec.SignerName != "a.b/c" || string(c.Status.Certificate) != "x" || c.Status.Conditions[1] != approved || odd.LastUpdateTime.IsZero() || odd.LastTransitionTime.IsZero() {
		t.Errorf("status update: got %+v", c)
	}

	c = old.DeepCopy()
	c.Status.Certificate = []byte("x")
	c.Status.Conditions[0] = certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True", Reason: "Again"}
	s.Subresources["approval"].Prepare(c, old)
	again := c.Status.Conditions[0]
	if c.Status.Certificate != nil || again.Reason != "Again" || again.LastUpdateTime.IsZero() || again.LastUpdateTime.Equal(&past) || !again.LastTransitionTime.Equal(&past) {
		t.Errorf("approval: got %+v", c)
	}

	c = old.DeepCopy()
	c.Labels, c.Spec.SignerName, c.Status.Certificate = map[string]string{"a": "b"}, "x.y/z", []byte("x")
	s.Update.Prepare(c, old)
	if c.Labels["a"] != "b" || !equality.Semantic.DeepEqual(c.Spec, old.Spec) || !equality.Semantic.DeepEqual(c.Status, old.Status) {
		t.Errorf("update: got %+v", c)
	}
}

func TestClaimSources(t *testing.T) {
	s := persistentVolumeClaim()
	snapshot := &corev1.TypedLocalObjectReference{APIGroup: new(snapshots), Kind: "VolumeSnapshot", Name: "s"}
	elsewhere := &corev1.TypedObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n", Namespace: new("other")}
	for name, tc := range map[string]struct {
		spec                corev1.PersistentVolumeClaimSpec
		wantSource, wantRef bool
	}{
		"none":              {},
		"a claim":           {corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "c"}}, true, true},
		"a snapshot":        {corev1.PersistentVolumeClaimSpec{DataSource: snapshot}, true, true},
		"garbage":           {corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "Pod", Name: "p"}}, false, false},
		"anything, newly":   {corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n"}}, true, true},
		"another namespace": {corev1.PersistentVolumeClaimSpec{DataSourceRef: elsewhere}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &corev1.PersistentVolumeClaim{Spec: *tc.spec.DeepCopy()}
			s.PrepareForCreate(c)
			if (c.Spec.DataSource != nil) != tc.wantSource || (c.Spec.DataSourceRef != nil) != tc.wantRef {
				t.Errorf("got sources %+v and %+v", c.Spec.DataSource, c.Spec.DataSourceRef)
			}
		})
	}
	// An old client that omits the fields that it does not know changes nothing.
	old := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n"}}}
	c := old.DeepCopy()
	s.Update.Prepare(c, old)
	if c.Spec.DataSource == nil || c.Spec.DataSourceRef == nil || old.Spec.DataSourceRef != nil {
		t.Errorf("update: got %+v, want %+v", c.Spec, old.Spec)
	}
	for _, err := range s.Update.Validate(c, old) {
		if err.Field == "spec" {
			t.Error(err)
		}
	}
}

func TestPolicyWarnings(t *testing.T) {
	half := corev1.ResourceList{"storage": resource.MustParse("1500m")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "fast"}},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: half, Limits: half}},
	}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer`,
	}
	if got := persistentVolumeClaim().Warnings(claim); !slices.Equal(got, want) {
		t.Errorf("claim: got warnings %q", got)
	}
	class := &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "zone"}, {Key: "failure-domain.beta.kubernetes.io/zone"},
	}}}}
	want = []string{`allowedTopologies[0].matchLabelExpressions[1].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`}
	if got := storageClass().Warnings(class); !slices.Equal(got, want) {
		t.Errorf("storage class: got warnings %q", got)
	}
}

func TestPolicyDefaults(t *testing.T) {
	limits := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: "Container", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}, Min: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
		{Type: "Pod", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}},
	}}}
	s := limitRange()
	s.Default(limits)
	item := limits.Spec.Limits[0]
	if len(item.Default) != 1 || item.Default.Cpu().String() != "2" || item.DefaultRequest.Cpu().String() != "2" || item.DefaultRequest.Memory().String() != "1Gi" {
		t.Errorf("container: got defaults %v and %v", item.Default, item.DefaultRequest)
	}
	if other := limits.Spec.Limits[1]; other.Default != nil || other.DefaultRequest != nil {
		t.Errorf("pod: got defaults %+v, want none", other)
	}
	if s.PrepareForCreate(limits); limits.Name == "" {
		t.Error("a limit range without a name has no defaults")
	}
	class := &schedulingv1.PriorityClass{}
	priorityClass().Default(class)
	if priorityClass().PrepareForCreate(class); *class.PreemptionPolicy != corev1.PreemptLowerPriority || class.Generation != 1 {
		t.Errorf("got priority class %+v", class)
	}
	storage := &storagev1.StorageClass{}
	if storageClass().Default(storage); *storage.ReclaimPolicy != "Delete" || *storage.VolumeBindingMode != "Immediate" {
		t.Errorf("got storage class %+v", storage)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if persistentVolumeClaim().Default(claim); *claim.Spec.VolumeMode != "Filesystem" || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("got claim %+v", claim)
	}
}

// TestGenerations checks that changes of the spec are counted, and only those.
func TestGenerations(t *testing.T) {
	s := podDisruptionBudget()
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 9}}
	if s.PrepareForCreate(b); b.Generation != 1 || b.Status.DisruptionsAllowed != 0 {
		t.Errorf("new budget: got %+v", b)
	}
	same := b.DeepCopy()
	same.Labels, same.Status.DisruptionsAllowed = map[string]string{"a": "b"}, 5
	if s.Update.Prepare(same, b); same.Generation != 1 || same.Status.DisruptionsAllowed != 0 {
		t.Errorf("update of its labels: got %+v", same)
	}
	changed := b.DeepCopy()
	changed.Spec.MinAvailable = new(intstr.FromInt32(1))
	if s.Update.Prepare(changed, b); changed.Generation != 2 {
		t.Errorf("change of its spec: got %+v", changed)
	}
	status := changed.DeepCopy()
	status.Spec.MinAvailable, status.Status.DisruptionsAllowed = nil, 5
	if s.Subresources["status"].Prepare(status, changed); status.Generation != 2 || status.Spec.MinAvailable == nil || status.Status.DisruptionsAllowed != 5 {
		t.Errorf("status update: got %+v", status)
	}
}

// TestDeploymentGenerations checks that changes of annotations count as well, and that a status
// update cannot change labels.
func TestDeploymentGenerations(t *testing.T) {
	s := deployment()
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 4, Labels: map[string]string{"a": "b"}}}
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   int64
	}{
		"a label":       {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "c"} }, 4},
		"an annotation": {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "c"} }, 5},
		"the spec":      {func(d *appsv1.Deployment) { d.Spec.Paused = true }, 5},
		"both":          {func(d *appsv1.Deployment) { d.Spec.Paused, d.Annotations = true, map[string]string{"a": "c"} }, 5},
		"the status":    {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, 4},
	} {
		d := old.DeepCopy()
		tc.change(d)
		if s.Update.Prepare(d, old); d.Generation != tc.want || d.Status.Replicas != 0 {
			t.Errorf("change of %s: got %+v", name, d)
		}
	}
	d := old.DeepCopy()
	d.Labels, d.Spec.Paused, d.Status.Replicas = nil, true, 3
	if s.Subresources["status"].Prepare(d, old); d.Labels["a"] != "b" || d.Spec.Paused || d.Status.Replicas != 3 || d.Generation != 4 {
		t.Errorf("status update: got %+v", d)
	}
}
