package podtemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// Legacy annotations, and the warning about a missing selector.
const (
	seccompPod       = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainer = "container.seccomp.security.alpha.kubernetes.io/"
	// AppArmorDeprecated is the warning about a legacy annotation.
	AppArmorDeprecated = `deprecated since v1.30; use the "appArmorProfile" field instead`
	noSelector         = "a null labelSelector results in matching no pod"
)

// PodWarnings returns the warnings about a pod.
func PodWarnings(p *corev1.Pod) []string {
	return pods(&p.ObjectMeta, &p.Spec, nil)
}

// PodTemplateWarnings returns the warnings about the template of a workload, which is at path.
func PodTemplateWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	return pods(&t.ObjectMeta, &t.Spec, path)
}

// PodNameWarnings returns the warnings about the name of a new pod, which is also its host name.
func PodNameWarnings(name string) []string {
	return dnsLabel(name, "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended")
}

// WorkloadNameWarnings returns the warnings about the name of a new object whose pods' names contain it.
func WorkloadNameWarnings(name string) []string {
	return dnsLabel(name, "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended")
}

func dnsLabel(name, why string) []string {
	if name == "" { // The name will be generated.
		return nil
	}
	if msgs := utilvalidation.IsDNS1123Label(name); len(msgs) > 0 {
		return []string{fmt.Sprintf("metadata.name: %s: %v", why, msgs)}
	}
	return nil
}

// list collects warnings.
type list []string

func (l *list) add(path *field.Path, format string, args ...any) {
	*l = append(*l, path.String()+": "+fmt.Sprintf(format, args...))
}

// placement warns about deprecated node labels.
func (l *list) placement(spec *corev1.PodSpec, path *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if msg := RenamedLabel(key); msg != "" {
			l.add(path.Child("nodeSelector").Key(key), "%s", msg)
		}
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		at, n := path.Child("affinity", "nodeAffinity"), spec.Affinity.NodeAffinity
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			for i, term := range n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				l.nodeTerm(term, false, at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
			}
		}
		for i, term := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			l.nodeTerm(term.Preference, true, at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
		}
	}
	for i, c := range spec.TopologySpreadConstraints {
		at := path.Child("topologySpreadConstraints").Index(i)
		if msg := RenamedLabel(c.TopologyKey); msg != "" {
			l.add(at.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		if c.LabelSelector == nil {
			l.add(at.Child("labelSelector"), noSelector)
		}
	}
}

// nodeTerm warns about deprecated node labels in a term, and in a preferred one about values that no label
// can have.
func (l *list) nodeTerm(term corev1.NodeSelectorTerm, preferred bool, path *field.Path) {
	for i, e := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if msg := RenamedLabel(e.Key); msg != "" {
			l.add(at.Child("key"), "%s is %s", e.Key, msg)
		}
		for j, value := range e.Values {
			if !preferred {
				break
			}
			for _, msg := range utilvalidation.IsValidLabelValue(value) {
				l.add(at.Child("values").Index(j), "%s is invalid, %s", value, msg)
			}
		}
	}
}

// annotations warns about annotations that fields have replaced.
func (l *list) annotations(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) {
	at := path.Child("metadata", "annotations")
	had := func(key, msg string) {
		if _, ok := meta.Annotations[key]; ok {
			l.add(at.Key(key), "%s", msg)
		}
	}
	had("scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`)
	had("security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`)
	had("security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`)
	own := spec.SecurityContext
	var whole *corev1.AppArmorProfile
	if own != nil {
		whole = own.AppArmorProfile
	}
	if own == nil || own.SeccompProfile == nil {
		had(seccompPod, `non-functional in v1.27+; use the "seccompProfile" field instead`)
	}
	EachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			had(seccompContainer+c.Name, `non-functional in v1.27+; use the "seccompProfile" field instead`)
		}
		if path == nil || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return // The creation of a pod warns before it turns the annotation into the field.
		}
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if whole == nil || !apiequality.Semantic.DeepEqual(whole, AppArmorNamed(meta.Annotations[key])) {
			had(key, AppArmorDeprecated)
		}
	})
}

// AppArmorNamed returns the profile that a legacy annotation names; nil if there is none or it is
// malformed.
func AppArmorNamed(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	file, ok := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	if !ok || file == "" || strings.TrimSpace(file) != file {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &file}
}

// repeated warns about duplicates in lists.
func (l *list) repeated(spec *corev1.PodSpec, path *field.Path) {
	ips, names := sets.New[string](), sets.New[string]()
	for i, alias := range spec.HostAliases {
		if ips.Has(alias.IP) {
			l.add(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
		}
		ips.Insert(alias.IP)
	}
	at := path.Child("imagePullSecrets")
	for i, secret := range spec.ImagePullSecrets {
		if names.Has(secret.Name) {
			l.add(at.Index(i).Child("name"), "duplicate name %q", secret.Name)
		}
		names.Insert(secret.Name)
	}
	for i, secret := range spec.ImagePullSecrets {
		if secret.Name == "" {
			l.add(at.Index(i).Child("name"), "invalid empty name %q", "")
		}
	}
}

// container warns about fractions of bytes, and about variables that hide others.
func (l *list) container(c *corev1.Container, path *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		l.fraction(c.Resources.Limits, name, path.Child("resources", "limits"))
		l.fraction(c.Resources.Requests, name, path.Child("resources", "requests"))
	}
	seen := sets.New[string]()
	for i, v := range c.Env {
		reference := "$(" + v.Name + ")"
		// A value that refers to the previous one extends it.
		adds := v.ValueFrom == nil && v.Value != reference && strings.Contains(v.Value, reference)
		if seen.Has(v.Name) && !adds {
			l.add(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		seen.Insert(v.Name)
	}
}

func (l *list) fraction(resources corev1.ResourceList, name corev1.ResourceName, path *field.Path) {
	if q, ok := resources[name]; ok && q.MilliValue()%1000 != 0 {
		l.add(path.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

// ports warns about ports that several containers declare.
func (l *list) ports(spec *corev1.PodSpec, path *field.Path) {
	type portAt struct {
		path *field.Path
		port corev1.ContainerPort
	}
	all := map[string][]portAt{}
	EachContainer(spec, path, func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				l.add(at, "hostIP set without hostPort: %+v", port)
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range all[key] {
				switch {
				case port.HostIP == other.port.HostIP && port.HostPort == other.port.HostPort:
					l.add(at, "duplicate port definition with %s", other.path)
				case port.HostPort == 0 || other.port.HostPort == 0:
					l.add(at, "overlapping port definition with %s", other.path)
				case port.HostPort == other.port.HostPort && (port.HostIP == "") != (other.port.HostIP == ""):
					l.add(at, "dangerously ambiguous port definition with %s", other.path)
				}
			}
			all[key] = append(all[key], portAt{at, port})
		}
	})
}

// portNames warns about names of ports that several containers give.
func (l *list) portNames(spec *corev1.PodSpec, path *field.Path) {
	first := map[string]*field.Path{}
	EachContainer(spec, path, func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			switch other := first[port.Name]; {
			case port.Name == "":
			case other == nil:
				first[port.Name] = at
			default:
				l.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, other, other)
			}
		}
	})
}

// addresses warns about addresses in a form that not all programs understand.
func (l *list) addresses(spec *corev1.PodSpec, path *field.Path) {
	if spec.DNSConfig != nil {
		for i, server := range spec.DNSConfig.Nameservers {
			*l = append(*l, network.IPWarnings(path.Child("dnsConfig", "nameservers").Index(i), server)...)
		}
	}
	for i, alias := range spec.HostAliases {
		*l = append(*l, network.IPWarnings(path.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
}

// podAffinity warns about terms that match no pod.
func (l *list) podAffinity(affinity *corev1.Affinity, path *field.Path) {
	if affinity == nil {
		return
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
		for i, term := range required {
			if term.LabelSelector == nil {
				l.add(path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"), noSelector)
			}
		}
		for i, term := range preferred {
			if term.PodAffinityTerm.LabelSelector == nil {
				l.add(path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"), noSelector)
			}
		}
	}
	if a := affinity.PodAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if a := affinity.PodAntiAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func pods(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) []string {
	var l list
	l.placement(spec, path.Child("spec"))
	l.annotations(meta, spec, path)
	l.volumes(spec.Volumes, path.Child("spec", "volumes"))
	l.repeated(spec, path.Child("spec"))
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		l.fraction(spec.Overhead, name, path.Child("spec", "overhead"))
	}
	EachContainer(spec, path.Child("spec"), l.container)
	l.ports(spec, path.Child("spec"))
	l.portNames(spec, path.Child("spec"))
	if s := spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		l.add(path.Child("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	l.podAffinity(spec.Affinity, path.Child("spec", "affinity"))
	l.addresses(spec, path.Child("spec"))
	return l
}
