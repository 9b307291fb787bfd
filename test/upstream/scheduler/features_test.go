package upstream

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// all are the features of pods on which filters and scores depend. Each changes a pod.
var all = []func(*Maker, *corev1.Pod){
	(*Maker).initContainers, (*Maker).podLevel, (*Maker).overhead, (*Maker).tolerations, (*Maker).tolerations, (*Maker).nodeSelector,
	(*Maker).requiredNodes, (*Maker).preferredNodes, (*Maker).preferredNodes, (*Maker).preferredNodes, (*Maker).namedNodes, (*Maker).nodeName,
	(*Maker).ports, (*Maker).ports, (*Maker).ports, (*Maker).spread, (*Maker).spread, (*Maker).spread, (*Maker).spread,
	(*Maker).requiredPods, (*Maker).requiredPods, (*Maker).preferredPods, (*Maker).preferredPods, (*Maker).preferredPods,
	(*Maker).owner, (*Maker).owner, (*Maker).claims, (*Maker).claims, (*Maker).claims,
}

func (m *Maker) initContainers(pod *corev1.Pod) {
	for i := range 1 + m.IntN(3) {
		c := m.container("i" + strconv.Itoa(i))
		if m.one(2) {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			if m.one(3) {
				c.Ports = []corev1.ContainerPort{{ContainerPort: 90, HostPort: 8080}}
			}
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
}

func (m *Maker) podLevel(pod *corev1.Pod) {
	requests := corev1.ResourceList{}
	if m.one(2) {
		requests[corev1.ResourceCPU] = resource.MustParse(of(m, "0", "500m", "2", "4"))
	}
	if len(requests) == 0 || m.one(2) {
		requests[corev1.ResourceMemory] = resource.MustParse(of(m, "0", "512Mi", "2Gi"))
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests}
}

func (m *Maker) overhead(pod *corev1.Pod) {
	pod.Spec.RuntimeClassName = ptr.To("heavy")
	pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	if m.one(2) {
		pod.Spec.Overhead[corev1.ResourceMemory] = resource.MustParse("100Mi")
	}
}

func (m *Maker) tolerations(pod *corev1.Pod) {
	for range 1 + m.IntN(2) {
		t := corev1.Toleration{
			Key:      of(m, "dedicated", "k", corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, ""),
			Operator: of(m, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
			Value:    of(m, "", "v", "w"),
			Effect:   of(m, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		}
		if t.Key == "" {
			t.Operator = corev1.TolerationOpExists
		}
		if t.Operator == corev1.TolerationOpExists {
			t.Value = ""
		}
		if t.Effect == corev1.TaintEffectNoExecute {
			t.TolerationSeconds = some(m, int64(0), 30)
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
}

func (m *Maker) nodeSelector(pod *corev1.Pod) {
	pod.Spec.NodeSelector = of(m, map[string]string{"disk": "ssd"}, map[string]string{corev1.LabelTopologyZone: "z1"},
		map[string]string{corev1.LabelTopologyRegion: "r1", "disk": "ssd"}, map[string]string{"none": "x"}, map[string]string{}, nil)
}

// nodeName names a node for a pod, sometimes, as only a request past the apiserver can.
func (m *Maker) nodeName(pod *corev1.Pod) {
	if m.one(3) {
		pod.Spec.NodeName = of(m, "n0", "n1")
	}
}

func affinity(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func nodes(pod *corev1.Pod) *corev1.NodeAffinity {
	a := affinity(pod)
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	return a.NodeAffinity
}

// labelTerm returns a term over the labels of nodes, sometimes an empty one.
func (m *Maker) labelTerm() corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for range m.IntN(3) {
		r := corev1.NodeSelectorRequirement{
			Key: of(m, corev1.LabelHostname, corev1.LabelTopologyZone, "disk", "none"),
			Operator: of(m, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
				corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt),
		}
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			r.Values = of(m, []string{"n0", "z1", "ssd"}, []string{"n1", "z2", ""}, []string{"hdd"})
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			r.Key, r.Values = "cores", []string{of(m, "3", "4", "7", "8")}
		}
		term.MatchExpressions = append(term.MatchExpressions, r)
	}
	return term
}

func (m *Maker) nameTerm() corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for range 1 + m.IntN(2) {
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: of(m, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values: []string{of(m, "n0", "n1", "n2", "gone")},
		})
	}
	return term
}

func (m *Maker) requiredNodes(pod *corev1.Pod) {
	selector := &corev1.NodeSelector{}
	for range 1 + m.IntN(2) {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, m.labelTerm())
	}
	nodes(pod).RequiredDuringSchedulingIgnoredDuringExecution = selector
}

func (m *Maker) namedNodes(pod *corev1.Pod) {
	selector := &corev1.NodeSelector{}
	for range 1 + m.IntN(2) {
		term := m.nameTerm()
		if m.one(4) {
			term.MatchExpressions = m.labelTerm().MatchExpressions
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	nodes(pod).RequiredDuringSchedulingIgnoredDuringExecution = selector
}

func (m *Maker) preferredNodes(pod *corev1.Pod) {
	a := nodes(pod)
	for range 1 + m.IntN(3) {
		term := m.labelTerm()
		if m.one(5) {
			term = m.nameTerm()
		}
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: of[int32](m, 1, 7, 50, 100), Preference: term})
	}
}

func (m *Maker) ports(pod *corev1.Pod) {
	pod.Spec.HostNetwork = m.one(5)
	for range 1 + m.IntN(2) {
		port := corev1.ContainerPort{
			HostPort: of[int32](m, 8080, 8080, 9090, 0), HostIP: of(m, "", "", "0.0.0.0", "::", "127.0.0.1", "10.0.0.1", "::1"),
			Protocol: of(m, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, ""), ContainerPort: 80,
		}
		if pod.Spec.HostNetwork && port.HostPort != 0 {
			port.ContainerPort = port.HostPort
		}
		c := &pod.Spec.Containers[m.IntN(len(pod.Spec.Containers))]
		c.Ports = append(c.Ports, port)
	}
}

func (m *Maker) key() string {
	return of(m, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "none")
}

func (m *Maker) spread(pod *corev1.Pod) {
	when := of(m, corev1.DoNotSchedule, corev1.ScheduleAnyway, corev1.ScheduleAnyway)
	for range 1 + m.IntN(2) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, m.constraint(when))
	}
}

func (m *Maker) constraint(when corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: of[int32](m, 1, 1, 2, 5), TopologyKey: m.key(), WhenUnsatisfiable: when,
		LabelSelector: m.selector(), NodeAffinityPolicy: some(m, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore),
		NodeTaintsPolicy: some(m, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore),
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && m.one(4) {
		c.MinDomains = ptr.To(of[int32](m, 1, 2, 3))
	}
	if c.LabelSelector != nil && m.one(3) {
		c.MatchLabelKeys = []string{of(m, "rev", "none")}
	}
	return c
}

func (m *Maker) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: m.key(), LabelSelector: m.selector()}
	if m.one(4) {
		t.Namespaces = of(m, []string{"other"}, []string{"default", "bare"})
	}
	if m.one(4) {
		t.NamespaceSelector = of(m, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}}})
	}
	if t.LabelSelector != nil && m.one(5) {
		t.MatchLabelKeys = []string{"rev"}
	} else if t.LabelSelector != nil && m.one(5) {
		t.MismatchLabelKeys = []string{"rev"}
	}
	return t
}

func (m *Maker) requiredPods(pod *corev1.Pod) {
	a := affinity(pod)
	for range 1 + m.IntN(2) {
		if m.one(2) {
			if a.PodAffinity == nil {
				a.PodAffinity = &corev1.PodAffinity{}
			}
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, m.term())
			continue
		}
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, m.term())
	}
}

func (m *Maker) preferredPods(pod *corev1.Pod) {
	a := affinity(pod)
	for range 1 + m.IntN(2) {
		term := corev1.WeightedPodAffinityTerm{Weight: of[int32](m, 1, 3, 50, 100), PodAffinityTerm: m.term()}
		if m.one(2) {
			if a.PodAffinity == nil {
				a.PodAffinity = &corev1.PodAffinity{}
			}
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term)
			continue
		}
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term)
	}
}

// owner makes a controller of some kind the pod's owner; it may not exist.
func (m *Maker) owner(pod *corev1.Pod) {
	kind := of(m, metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}, metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"})
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: kind.APIVersion, Kind: kind.Kind, Name: of(m, "owner", "owner", "gone"), UID: "owner", Controller: ptr.To(true),
	}}
}
