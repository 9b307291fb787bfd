package quota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// amounts returns a resource list from "cpu", "1", "memory", "2Gi", ...
func amounts(list ...string) corev1.ResourceList {
	r := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		r[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return r
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func needs(requests, limits corev1.ResourceList) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
}

func service(sort corev1.ServiceType, ports ...int32) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: sort}}
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: port})
	}
	return s
}

func TestUsage(t *testing.T) {
	table := scheme.New()
	no, gold := false, "gold"
	unallocated := service(corev1.ServiceTypeLoadBalancer, 0, 30000)
	unallocated.Spec.AllocateLoadBalancerNodePorts = &no
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &gold, Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "1500m")},
	}}
	devices := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3}},
		{Name: "b", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic", AllocationMode: resourcev1.DeviceAllocationModeAll}},
		{Name: "c", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "x", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
			{Name: "y", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4},
			{Name: "z", DeviceClassName: "old", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 8},
		}},
	}}}}
	grown := claim.DeepCopy()
	grown.Spec.StorageClassName = nil
	grown.Status.AllocatedResources = amounts("storage", "5")
	for _, tc := range []struct {
		name string
		obj  scheme.Object
		want corev1.ResourceList
	}{
		{"a pod without requests", pod(), amounts("count/pods", "1", "pods", "1")},
		{"a pod", pod(needs(amounts("cpu", "1", "memory", "1Gi", "hugepages-2Mi", "4Mi", "example.com/gpu", "2"), amounts("cpu", "2", "ephemeral-storage", "3Gi"))), amounts(
			"count/pods", "1", "pods", "1", "cpu", "1", "requests.cpu", "1", "memory", "1Gi", "requests.memory", "1Gi", "limits.cpu", "2",
			"limits.ephemeral-storage", "3Gi", "hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi", "requests.example.com/gpu", "2")},
		{"a pod with init containers", pod(needs(amounts("cpu", "1"), nil), func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = []corev1.Container{
				{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "500m")}},
				{Name: "init", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "3")}},
			}
			p.Spec.Overhead = amounts("cpu", "100m")
		}), amounts("count/pods", "1", "pods", "1", "cpu", "3600m", "requests.cpu", "3600m")},
		{"a pod with pod-level resources", pod(needs(amounts("cpu", "1"), nil), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "4")}
		}), amounts("count/pods", "1", "pods", "1", "cpu", "4", "requests.cpu", "4")},
		{"a pod that failed", pod(needs(amounts("cpu", "1"), nil), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), amounts("count/pods", "1")},
		{"a pod that succeeded", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), amounts("count/pods", "1")},
		{"a service", service(corev1.ServiceTypeClusterIP, 0), amounts("count/services", "1", "services", "1", "services.nodeports", "0", "services.loadbalancers", "0")},
		{"node ports", service(corev1.ServiceTypeNodePort, 0, 30000), amounts("count/services", "1", "services", "1", "services.nodeports", "2", "services.loadbalancers", "0")},
		{"a load balancer", service(corev1.ServiceTypeLoadBalancer, 0, 30000), amounts("count/services", "1", "services", "1", "services.nodeports", "2", "services.loadbalancers", "1")},
		{"a load balancer without node ports", unallocated, amounts("count/services", "1", "services", "1", "services.nodeports", "1", "services.loadbalancers", "1")},
		{"a claim", claim, amounts("count/persistentvolumeclaims", "1", "persistentvolumeclaims", "1", "requests.storage", "2",
			"gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1", "gold.storageclass.storage.k8s.io/requests.storage", "2")},
		{"a claim with more allocated", grown, amounts("count/persistentvolumeclaims", "1", "persistentvolumeclaims", "1", "requests.storage", "5")},
		{"a secret", &corev1.Secret{}, amounts("count/secrets", "1", "secrets", "1")},
		{"a config map", &corev1.ConfigMap{}, amounts("count/configmaps", "1", "configmaps", "1")},
		{"a quota", &corev1.ResourceQuota{}, amounts("count/resourcequotas", "1", "resourcequotas", "1")},
		{"a deployment", &appsv1.Deployment{}, amounts("count/deployments.apps", "1")},
		{"a lease", &coordinationv1.Lease{}, amounts("count/leases.coordination.k8s.io", "1")},
		{"a replication controller", &corev1.ReplicationController{}, amounts("count/replicationcontrollers", "1", "replicationcontrollers", "1")},
		{"a claim for devices", devices, amounts("count/resourceclaims.resource.k8s.io", "1", "gpu.deviceclass.resource.k8s.io/devices", "7",
			"nic.deviceclass.resource.k8s.io/devices", "32", "old.deviceclass.resource.k8s.io/devices", "8")},
		{"an event", &corev1.Event{}, amounts()},
		{"a node", &corev1.Node{}, amounts()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := table.KindOf(tc.obj)
			got := quota.Usage(kind, tc.obj)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for name := range got {
				if !quota.Covers(kind, name) {
					t.Errorf("%s is used but not covered", name)
				}
			}
		})
	}
}

// TestPodPastItsGracePeriod checks that a pod stops counting when its grace period has passed, as on
// a lost node.
func TestPodPastItsGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := scheme.For[*corev1.Pod](scheme.New())
		grace, at := int64(30), metav1.Now()
		p := pod(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace })
		time.Sleep(30 * time.Second)
		if _, counts := quota.Usage(kind, p)["pods"]; !counts {
			t.Error("it does not count within its grace period")
		}
		time.Sleep(time.Second)
		if _, counts := quota.Usage(kind, p)["pods"]; counts {
			t.Error("it counts after its grace period")
		}
	})
}

func TestCovers(t *testing.T) {
	table := scheme.New()
	for _, tc := range []struct {
		obj  scheme.Object
		name corev1.ResourceName
		want bool
	}{
		{&corev1.Pod{}, "pods", true},
		{&corev1.Pod{}, "count/pods", true},
		{&corev1.Pod{}, "limits.memory", true},
		{&corev1.Pod{}, "hugepages-1Gi", true},
		{&corev1.Pod{}, "requests.example.com/gpu", true},
		{&corev1.Pod{}, "example.com/gpu", false},
		{&corev1.Pod{}, "requests.storage", false},
		{&corev1.Pod{}, "services", false},
		{&corev1.Service{}, "services.loadbalancers", true},
		{&corev1.Service{}, "pods", false},
		{&corev1.PersistentVolumeClaim{}, "requests.storage", true},
		{&corev1.PersistentVolumeClaim{}, "silver.storageclass.storage.k8s.io/requests.storage", true},
		{&appsv1.Deployment{}, "count/deployments.apps", true},
		{&appsv1.Deployment{}, "count/replicasets.apps", false},
		{&corev1.Event{}, "count/events", false},
	} {
		if got := quota.Covers(table.KindOf(tc.obj), tc.name); got != tc.want {
			t.Errorf("%T covers %s: %v", tc.obj, tc.name, got)
		}
	}
}

func TestScopes(t *testing.T) {
	table := scheme.New()
	deadline := int64(5)
	terminating := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &deadline }
	class := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.PriorityClassName = name } }
	crossing := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"other"}}},
		}}}
	}
	near := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}
	}
	with := func(scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Hard: amounts("pods", "1", "persistentvolumeclaims", "1", "configmaps", "1")}}
	}
	selecting := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
		q := with()
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}
		return q
	}
	const (
		byClass = corev1.ResourceQuotaScopePriorityClass
		byVAC   = corev1.ResourceQuotaScopeVolumeAttributesClass
	)
	fast := "fast"
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &fast}}
	for _, tc := range []struct {
		name  string
		quota *corev1.ResourceQuota
		obj   scheme.Object
		want  bool
	}{
		{"none", with(), pod(), true},
		{"Terminating", with(corev1.ResourceQuotaScopeTerminating), pod(terminating), true},
		{"Terminating, not", with(corev1.ResourceQuotaScopeTerminating), pod(), false},
		{"NotTerminating", with(corev1.ResourceQuotaScopeNotTerminating), pod(), true},
		{"NotTerminating, not", with(corev1.ResourceQuotaScopeNotTerminating), pod(terminating), false},
		{"BestEffort", with(corev1.ResourceQuotaScopeBestEffort), pod(), true},
		{"BestEffort, not", with(corev1.ResourceQuotaScopeBestEffort), pod(needs(nil, amounts("memory", "1"))), false},
		{"BestEffort with storage", with(corev1.ResourceQuotaScopeBestEffort), pod(needs(amounts("ephemeral-storage", "1"), nil)), true},
		{"NotBestEffort", with(corev1.ResourceQuotaScopeNotBestEffort), pod(needs(amounts("cpu", "1"), nil)), true},
		{"BestEffort by its status", with(corev1.ResourceQuotaScopeBestEffort), pod(func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable }), false},
		{"both", with(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeTerminating), pod(), false},
		{"CrossNamespacePodAffinity", with(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), pod(crossing), true},
		{"CrossNamespacePodAffinity, not", with(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), pod(near), false},
		{"PriorityClass exists", with(byClass), pod(class("high")), true},
		{"PriorityClass exists, not", with(byClass), pod(), false},
		{"PriorityClass in", selecting(byClass, corev1.ScopeSelectorOpIn, "high", "low"), pod(class("high")), true},
		{"PriorityClass in, not", selecting(byClass, corev1.ScopeSelectorOpIn, "low"), pod(class("high")), false},
		{"PriorityClass not in", selecting(byClass, corev1.ScopeSelectorOpNotIn, "low"), pod(class("high")), true},
		{"PriorityClass not in, none", selecting(byClass, corev1.ScopeSelectorOpNotIn, "low"), pod(), true},
		{"PriorityClass does not exist", selecting(byClass, corev1.ScopeSelectorOpDoesNotExist), pod(), true},
		{"an invalid operator", selecting(byClass, "Near", "low"), pod(class("low")), false},
		{"a scope of pods for another kind", with(corev1.ResourceQuotaScopeNotTerminating), &corev1.ConfigMap{}, false},
		{"a scope of pods for a claim", with(corev1.ResourceQuotaScopeNotTerminating), claim, false},
		{"VolumeAttributesClass in", selecting(byVAC, corev1.ScopeSelectorOpIn, "fast"), claim, true},
		{"VolumeAttributesClass in, not", selecting(byVAC, corev1.ScopeSelectorOpIn, "slow"), claim, false},
		{"nothing that it uses", with(), &corev1.Secret{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := quota.Matches(tc.quota, table.KindOf(tc.obj), tc.obj); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestUnspecified(t *testing.T) {
	limited := []corev1.ResourceName{"limits.cpu", "pods", "requests.memory", "requests.storage"}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"all", pod(needs(amounts("memory", "1"), amounts("cpu", "1"))), ""},
		{"nothing", pod(), "must specify limits.cpu for: c; requests.memory for: c"},
		{"not by all containers", pod(needs(amounts("memory", "1"), amounts("cpu", "1")), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "b"}, {Name: "a"}}
		}), "must specify limits.cpu for: a,b; requests.memory for: a,b"},
		{"by the pod", pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("memory", "1"), Limits: amounts("cpu", "1")}
		}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := quota.Unspecified(tc.pod, limited); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
