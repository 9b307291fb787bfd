package upstream

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // The scheme converts and defaults pods.
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/utils/ptr"
)

// stored returns a pod as an apiserver stores it; nil if it rejects the pod.
func (m *Maker) stored(p *corev1.Pod) *corev1.Pod {
	legacyscheme.Scheme.Default(p)
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(p, &internal, nil); err != nil {
		return nil
	}
	ctx := request.WithNamespace(request.NewContext(), p.Namespace)
	pod.Strategy.PrepareForCreate(ctx, &internal)
	if errs := pod.Strategy.Validate(ctx, &internal); len(errs) > 0 {
		return nil
	}
	var kept corev1.Pod
	if err := legacyscheme.Scheme.Convert(&internal, &kept, nil); err != nil {
		return nil
	}
	kept.Status = corev1.PodStatus{}
	return &kept
}

// running adds what a pod on a node may have: its end, and the resources of a resize.
func (m *Maker) running(p *corev1.Pod) *corev1.Pod {
	if m.one(10) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
		p.Finalizers = []string{"example.com/x"}
	}
	if !m.one(3) {
		return p
	}
	list := func() corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(of(m, "100m", "1", "3")), corev1.ResourceMemory: resource.MustParse(of(m, "64Mi", "2Gi")),
		}
	}
	statuses := func(containers []corev1.Container) (all []corev1.ContainerStatus) {
		for i := range containers {
			status := corev1.ContainerStatus{Name: containers[i].Name, AllocatedResources: list()}
			if !m.one(3) {
				status.Resources = &corev1.ResourceRequirements{Requests: list()}
			}
			all = append(all, status)
		}
		return all
	}
	p.Status.ContainerStatuses = statuses(p.Spec.Containers)
	p.Status.InitContainerStatuses = statuses(p.Spec.InitContainers)
	if p.Spec.Resources != nil && m.one(2) {
		p.Status.AllocatedResources, p.Status.Resources = list(), &corev1.ResourceRequirements{Requests: list()}
	}
	if m.one(3) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: of(m, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
	return p
}

// limit sets what the pod requests to what a node has left of a resource, or to one more.
func (m *Maker) limit() {
	node := of(m, m.c.Nodes...)
	name := of(m, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
	left := node.Status.Allocatable[name]
	for _, p := range m.c.Pods {
		if p.Spec.NodeName == node.Name {
			requests := podRequests(p)
			left.Sub(requests[name])
		}
	}
	if own := podRequests(m.c.Pod); m.c.Pod.Spec.Resources == nil {
		container := &m.c.Pod.Spec.Containers[0].Resources
		left.Sub(own[name])
		left.Add(container.Requests[name])
		if m.one(2) {
			left.Add(*resource.NewMilliQuantity(of[int64](m, 1, 1000), resource.DecimalSI))
		}
		if limit, limited := container.Limits[name]; left.Sign() < 0 || limited && limit.Cmp(left) < 0 {
			return
		}
		if container.Requests == nil {
			container.Requests = corev1.ResourceList{}
		}
		container.Requests[name] = left
	}
}

// storage adds classes, claims and volumes.
func (m *Maker) storage() {
	m.c.Classes = []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: "example.com/p", VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)},
		{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/p", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: volume.NotSupportedProvisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
	}
	if m.one(3) {
		m.c.Classes[1].AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: of(m, []string{"z1"}, []string{"z1", "z2"}, []string{"z9"})},
		}}}
	}
	for _, name := range []string{"v1", "v2", "v3"} {
		m.c.Volumes = append(m.c.Volumes, m.volume(name))
	}
	if m.one(3) {
		m.capacities()
	}
}

// capacities adds the driver that makes volumes of the class "late", and what it reports of its storage. Of two
// pools for one node, Kubernetes scores either, so each zone has one.
func (m *Maker) capacities() {
	m.c.Drivers = []*storagev1.CSIDriver{{
		ObjectMeta: metav1.ObjectMeta{Name: "example.com/p"},
		Spec:       storagev1.CSIDriverSpec{StorageCapacity: of(m, ptr.To(true), ptr.To(true), ptr.To(true), ptr.To(false), nil)},
	}}
	for _, zone := range []string{"z1", "z2"} {
		pool := &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Namespace: "kube-system", Name: zone},
			NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}},
			StorageClassName: of(m, "late", "late", "late", "now"),
			Capacity:         ptr.To(resource.MustParse(of(m, "0", "1Gi", "1500Mi", "3Gi", "40Gi"))),
		}
		if m.one(4) {
			pool.MaximumVolumeSize = ptr.To(resource.MustParse(of(m, "1Gi", "2Gi")))
		}
		if m.one(8) {
			pool.NodeTopology = nil
		}
		m.c.Capacities = append(m.c.Capacities, pool)
	}
}

func (m *Maker) volume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	v.Spec.StorageClassName = of(m, "", "", "late", "local", "local")
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(of(m, "1Gi", "2Gi", "3Gi"))}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{of(m, corev1.ReadWriteOnce, corev1.ReadWriteMany)}
	v.Status.Phase = of(m, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeReleased)
	if name == "v1" && m.one(3) { // Of two reserved for one claim, Kubernetes takes either.
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: of(m, "a", "b")}
	}
	if m.one(3) {
		v.Labels[of(m, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)] = of(m, "z1", "z2", "z1__z3", "z1__", "")
	}
	if m.one(6) {
		v.Labels[of(m, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion)] = of(m, "r1", "r2")
	}
	if m.one(3) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{m.labelTerm()}}}
	}
	return v
}

// claims gives the pod a volume with a claim of some state, or with none.
func (m *Maker) claims(p *corev1.Pod) {
	name := of(m, "a", "b")
	v := corev1.Volume{Name: name}
	owned := m.one(4)
	if owned {
		v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		name = p.Name + "-" + name
	} else {
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	}
	p.Spec.Volumes = append(p.Spec.Volumes, v)
	for _, claim := range m.c.Claims {
		if claim.Namespace == p.Namespace && claim.Name == name {
			return
		}
	}
	if m.one(12) {
		return // The claim does not exist.
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: "claim"}}
	if owned && !m.one(6) {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{of(m, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)}
	claim.Spec.StorageClassName = of(m, nil, ptr.To("now"), ptr.To("late"), ptr.To("gone"), ptr.To(""))
	claim.Spec.VolumeName = of(m, "v1", "v1", "v1", "v2", "v2", "v3", "v3", "v3", "gone")
	claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	claim.Status.Phase = corev1.ClaimBound
	switch m.IntN(16) {
	case 0:
		claim.Status.Phase = corev1.ClaimLost
	case 1:
		claim.Annotations = nil // It only names its volume.
	case 2:
		claim.DeletionTimestamp = &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
		claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	case 3, 4, 5:
		claim.Annotations, claim.Spec.VolumeName, claim.Status.Phase = nil, "", corev1.ClaimPending
		claim.Spec.StorageClassName = of(m, nil, ptr.To("now"), ptr.To("gone"), ptr.To("late"), ptr.To("late"), ptr.To("local"), ptr.To("local"), ptr.To("local"))
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(of(m, "1Gi", "2Gi"))}
		if m.one(4) {
			claim.Annotations = map[string]string{volume.AnnSelectedNode: of(m, "n0", "n1", "n2")}
		}
	}
	m.c.Claims = append(m.c.Claims, claim)
}
