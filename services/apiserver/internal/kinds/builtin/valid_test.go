package builtin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// maker creates valid objects at random.
type maker struct {
	*rand.Rand
	request []byte
}

func (m *maker) coin() bool { return m.Intn(2) == 0 }

func (m *maker) meta(namespaced bool) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("n%d", m.Intn(1000))}
	if namespaced {
		meta.Namespace = "ns"
	}
	if m.coin() {
		meta.Labels, meta.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "\u2603 \n"}
	}
	return meta
}

func (m *maker) quantity() resource.Quantity {
	return resource.MustParse(pick(m, "0", "1", "500m", "1Gi", "1500Mi", "2e3", "7", "100k"))
}

func (m *maker) rules(namespaced bool) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range m.Intn(4) {
		rule := rbacv1.PolicyRule{Verbs: some(m, "get", "list", "*")}
		if !namespaced && m.coin() {
			rule.NonResourceURLs = some(m, "/metrics", "/healthz/*")
		} else {
			rule.APIGroups, rule.Resources = some(m, "", "apps", "*"), some(m, "pods", "pods/log", "*")
			if m.coin() {
				rule.ResourceNames = some(m, "x", "y")
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

func (m *maker) subjects() []rbacv1.Subject {
	return some(m,
		rbacv1.Subject{Kind: "User", Name: "ann"}, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:masters"},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ns", Name: "bot"})
}

// object returns a valid object of one of the kinds; it panics for an unknown kind.
func (m *maker) object(kind string) scheme.Object {
	switch kind {
	case "Role":
		return &rbacv1.Role{ObjectMeta: m.meta(true), Rules: m.rules(true)}
	case "ClusterRole":
		role := &rbacv1.ClusterRole{ObjectMeta: m.meta(false), Rules: m.rules(false)}
		if m.coin() {
			role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}}
		}
		return role
	case "RoleBinding":
		return &rbacv1.RoleBinding{ObjectMeta: m.meta(true), Subjects: m.subjects(), RoleRef: rbacv1.RoleRef{Kind: pick(m, "Role", "ClusterRole"), Name: "r:s"}}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{ObjectMeta: m.meta(false), Subjects: m.subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"}}
	case "ResourceQuota":
		return m.quota()
	case "LimitRange":
		return m.limits()
	case "PriorityClass":
		return &schedulingv1.PriorityClass{
			ObjectMeta: m.meta(false), Value: int32(m.Intn(2e9) - 1e9), GlobalDefault: m.coin(), Description: pick(m, "", "why"),
			PreemptionPolicy: maybe(m, pick(m, corev1.PreemptNever, corev1.PreemptLowerPriority)),
		}
	case "PodDisruptionBudget":
		return m.budget()
	case "CertificateSigningRequest":
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: m.meta(false), Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: m.request, SignerName: pick(m, "kubernetes.io/kube-apiserver-client", "example.com/a.b"), ExpirationSeconds: maybe(m, int32(600+m.Intn(1e6))),
			Usages: some[certificatesv1.KeyUsage](m, "client auth", "server auth", "digital signature"), Username: "forged", Groups: []string{"system:masters"},
		}}
	case "PersistentVolumeClaim":
		return m.claim()
	case "StorageClass":
		class := &storagev1.StorageClass{
			ObjectMeta: m.meta(false), Provisioner: pick(m, "example.com/Disk", "x"), AllowVolumeExpansion: maybe(m, m.coin()),
			ReclaimPolicy:     maybe(m, pick(m, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete)),
			VolumeBindingMode: maybe(m, storagev1.VolumeBindingWaitForFirstConsumer), MountOptions: pick(m, nil, []string{"ro"}),
		}
		if m.coin() {
			class.Parameters = map[string]string{"type": "ssd"}
			class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: some(m, "a", "b")}}}}
		}
		return class
	}
	panic("no valid " + kind + " is known")
}

func (m *maker) quota() scheme.Object {
	quota := &corev1.ResourceQuota{ObjectMeta: m.meta(true)}
	quota.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse(pick(m, "0", "10", "1k"))}
	for _, name := range some[corev1.ResourceName](m, "cpu", "limits.memory", "requests.cpu") {
		quota.Spec.Hard[name] = m.quantity()
	}
	switch m.Intn(3) {
	case 0:
		quota.Spec.Scopes = some(m, corev1.ResourceQuotaScopeNotBestEffort, pick(m, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating))
	case 1:
		quota.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: pick(m, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn), Values: some(m, "a", "b"),
		}}}
	default:
		quota.Spec.Hard["count/deployments.apps"] = resource.MustParse("5")
		quota.Spec.Hard["requests.storage"] = m.quantity()
	}
	return quota
}

func (m *maker) limits() scheme.Object {
	limits := &corev1.LimitRange{ObjectMeta: m.meta(true)}
	ordered := func(names ...corev1.ResourceName) (lists [4]corev1.ResourceList) {
		for i := range lists {
			if m.coin() {
				continue
			}
			lists[i] = corev1.ResourceList{}
			for _, name := range names {
				lists[i][name] = resource.MustParse(fmt.Sprintf("%d", i+1))
			}
		}
		return lists
	}
	for _, kind := range some[corev1.LimitType](m, "Container", "Pod", "PersistentVolumeClaim", "example.com/Other") {
		names := some[corev1.ResourceName](m, "cpu", "memory")
		if kind != "Container" && kind != "Pod" {
			names = []corev1.ResourceName{"storage"}
		}
		lists := ordered(names...)
		item := corev1.LimitRangeItem{Type: kind, Min: lists[0], Max: lists[3]}
		if kind != "Pod" {
			item.DefaultRequest, item.Default = lists[1], lists[2]
		}
		if kind == "PersistentVolumeClaim" {
			item.Max = corev1.ResourceList{"storage": resource.MustParse("4")}
		}
		if m.coin() && item.Min == nil {
			item.MaxLimitRequestRatio = corev1.ResourceList{names[0]: resource.MustParse(pick(m, "1", "2500m"))}
		}
		limits.Spec.Limits = append(limits.Spec.Limits, item)
	}
	return limits
}

func (m *maker) budget() scheme.Object {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: m.meta(true)}
	number := pick(m, intstr.FromInt32(int32(m.Intn(10))), intstr.FromString("0%"), intstr.FromString("100%"))
	if m.coin() {
		budget.Spec.MinAvailable = &number
	} else {
		budget.Spec.MaxUnavailable = maybe(m, number)
	}
	budget.Spec.Selector = maybe(m, metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}})
	budget.Spec.UnhealthyPodEvictionPolicy = maybe(m, pick(m, policyv1.AlwaysAllow, policyv1.IfHealthyBudget))
	return budget
}

func (m *maker) claim() scheme.Object {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: m.meta(true), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: some(m, corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany), StorageClassName: maybe(m, pick(m, "", "fast")),
		Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(pick(m, "1", "500m", "10Gi"))}},
		VolumeMode: maybe(m, pick(m, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)), VolumeAttributesClassName: maybe(m, "gold"),
		Selector: maybe(m, metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}), VolumeName: pick(m, "", "pv"),
	}}
	switch m.Intn(4) {
	case 0:
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "s"}
	case 1:
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("example.com"), Kind: "Hydrator", Name: "h"}
	case 2:
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "Garbage", Name: "g"}
	}
	return claim
}

func newMaker(t testing.TB, seed int64) *maker {
	t.Helper()
	return &maker{Rand: rand.New(rand.NewSource(seed)), request: certificateRequest(t)}
}

func certificateRequest(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(crand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func pick[T any](m *maker, from ...T) T { return from[m.Intn(len(from))] }

// some returns a random non-empty subset of from, in its order.
func some[T any](m *maker, from ...T) []T {
	var chosen []T
	for _, one := range from {
		if m.coin() {
			chosen = append(chosen, one)
		}
	}
	if len(chosen) == 0 {
		chosen = append(chosen, pick(m, from...))
	}
	return chosen
}

func maybe[T any](m *maker, value T) *T {
	if m.coin() {
		return nil
	}
	return &value
}

// madeKinds are the kinds of objects that maker can create.
func madeKinds() []string {
	return []string{
		"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ResourceQuota", "LimitRange", "PriorityClass", "PodDisruptionBudget",
		"CertificateSigningRequest", "PersistentVolumeClaim", "StorageClass",
	}
}

// checkValid checks, for any valid object, that it is accepted as new and as an update of itself.
// The object is unchanged after a round trip through each encoding, and setting its defaults then
// changes nothing.
func checkValid(t *testing.T, table *scheme.Table, s *kinds.Definition, obj scheme.Object) {
	t.Helper()
	kind := table.KindOf(obj)
	if s.Default != nil {
		s.Default(obj)
	}
	if s.PrepareForCreate != nil {
		s.PrepareForCreate(obj)
	}
	if errs := s.Validate(obj); len(errs) > 0 {
		t.Fatalf("a valid %s was rejected: %v\n%+v", kind.Kind, errs.ToAggregate(), obj)
	}
	obj.SetResourceVersion("1")
	next := obj.DeepCopyObject().(scheme.Object)
	if s.Update.Prepare != nil {
		s.Update.Prepare(next, obj)
	}
	if errs := s.Update.Validate(next, obj); len(errs) > 0 {
		t.Fatalf("a %s cannot be updated to itself: %v", kind.Kind, errs.ToAggregate())
	}
	if !equality.Semantic.DeepEqual(next, obj) {
		t.Fatalf("an update to itself changed a %s:\n%+v\n%+v", kind.Kind, obj, next)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	for _, info := range table.Codecs().SupportedMediaTypes() {
		data, err := runtime.Encode(info.Serializer, obj)
		if err != nil {
			t.Fatalf("%s as %s: %v", kind.Kind, info.MediaType, err)
		}
		back, _, err := info.Serializer.Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s as %s: %v", kind.Kind, info.MediaType, err)
		}
		back.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
		if s.Default != nil {
			s.Default(back.(scheme.Object))
		}
		if !equality.Semantic.DeepEqual(obj, back) {
			t.Fatalf("%s differs after a round trip as %s:\n%+v\n%+v", kind.Kind, info.MediaType, obj, back)
		}
	}
}

func TestValidObjects(t *testing.T) {
	table, all := scheme.New(), All(Config{})
	m := newMaker(t, 1)
	for _, kind := range madeKinds() {
		t.Run(kind, func(t *testing.T) {
			for range 300 {
				obj := m.object(kind)
				checkValid(t, table, all[table.KindOf(obj).GroupVersionKind], obj)
			}
		})
	}
}

func FuzzValidObjects(f *testing.F) {
	table, all := scheme.New(), All(Config{})
	kinds := madeKinds()
	request := certificateRequest(f)
	f.Add(int64(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed int64, which uint8) {
		m := &maker{Rand: rand.New(rand.NewSource(seed)), request: request}
		obj := m.object(kinds[int(which)%len(kinds)])
		checkValid(t, table, all[table.KindOf(obj).GroupVersionKind], obj)
	})
}
