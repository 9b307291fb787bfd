package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// maxHostnameOverride bounds spec.hostnameOverride, as Linux bounds host names.
const maxHostnameOverride = 64

// Validate validates a new pod.
func Validate(pod *corev1.Pod) field.ErrorList {
	errs := MetadataAndSpec(pod, nil)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "ephemeralContainers"), "cannot be set on create"))
	}
	if len(pod.Spec.SchedulingGates) > 0 && pod.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, confinement(pod.Annotations, &pod.Spec, field.NewPath("spec"))...)
}

// MetadataAndSpec checks the metadata and the spec of a pod on creation, and on each update of old.
func MetadataAndSpec(pod, old *corev1.Pod) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, Annotations(pod.Annotations, &pod.Spec, field.NewPath("metadata", "annotations"))...)
	was := &corev1.PodSpec{}
	if old != nil {
		was = &old.Spec
	}
	return append(errs, checkSpec(&pod.Spec, was, pod, field.NewPath("spec"))...)
}

// Template validates a pod template. old is the template that an update replaces, which may hold what no
// new one may; nil if there is none.
func Template(template, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	was := &corev1.PodSpec{}
	if old != nil {
		was = &old.Spec
	}
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, Annotations(template.Annotations, &template.Spec, path.Child("annotations"))...)
	errs = append(errs, checkSpec(&template.Spec, was, nil, path.Child("spec"))...)
	errs = append(errs, confinement(template.Annotations, &template.Spec, path.Child("spec"))...)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// checkSpec checks the spec of a pod, or of a template when there is no pod yet. A few things are
// allowed only in pods that had them before.
func checkSpec(spec, was *corev1.PodSpec, of *corev1.Pod, path *field.Path) field.ErrorList {
	podName := ""
	if of != nil {
		podName = of.Name
	}
	volumes, errs := volumes(spec.Volumes, podName, path.Child("volumes"))
	if of != nil {
		errs = append(errs, podOnly(spec, path)...)
	}
	claims := claimNames(spec)
	errs = append(errs, containers(surroundings{spec: spec, was: was, volumes: volumes, claims: claims}, path)...)
	errs = append(errs, resourceClaims(spec, of, path)...)
	errs = append(errs, fileVolumes(spec, path)...)
	errs = append(errs, wholePod(spec, claims, path.Child("resources"))...)
	errs = append(errs, values.OneOf(spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, dns(spec, path)...)
	errs = append(errs, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, podSecurity(spec, path.Child("securityContext"))...)
	errs = append(errs, sharedProcesses(spec, path)...)
	errs = append(errs, hostPorts(spec, of != nil, path)...)
	errs = append(errs, specNames(spec, path)...)
	if s := spec.ActiveDeadlineSeconds; s != nil && (*s < 1 || *s > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *s, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	errs = append(errs, scheduling.Affinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, scheduling.Tolerations(spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, scheduling.Spread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, hostAliases(spec.HostAliases, path.Child("hostAliases"))...)
	errs = append(errs, gates(spec, path)...)
	if spec.PreemptionPolicy != nil {
		errs = append(errs, values.OneOf(*spec.PreemptionPolicy, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if spec.Overhead != nil {
		errs = append(errs, resources.Requirements(&corev1.ResourceRequirements{Limits: spec.Overhead}, resources.ContainerName, path.Child("overhead"))...)
	}
	return append(errs, system(spec, path)...)
}

// podOnly makes the checks that templates are exempt from, because templates existed before these
// checks did.
func podOnly(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range spec.Volumes {
		if spec.ServiceAccountName != "" || spec.Volumes[i].Projected == nil {
			continue
		}
		at := path.Child("volumes").Index(i).Child("projected", "sources")
		for j, source := range spec.Volumes[i].Projected.Sources {
			if source.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(at.Index(j).Child("serviceAccountToken"), "must not be specified when serviceAccountName is not set"))
			}
		}
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) { errs = append(errs, trimmedImage(c, at)...) })
	if s := spec.TerminationGracePeriodSeconds; s != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(*s, path.Child("terminationGracePeriodSeconds"))...)
	}
	return errs
}

// specNames checks the fields of a spec that name other objects.
func specNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(child, value string, valid func(string) []string) {
		if value == "" {
			return
		}
		for _, msg := range valid(value) {
			errs = append(errs, field.Invalid(path.Child(child), value, msg))
		}
	}
	check("serviceAccountName", spec.ServiceAccountName, validation.IsDNS1123Subdomain)
	check("nodeName", spec.NodeName, validation.IsDNS1123Subdomain)
	check("hostname", spec.Hostname, validation.IsDNS1123Label)
	check("subdomain", spec.Subdomain, validation.IsDNS1123Label)
	check("priorityClassName", spec.PriorityClassName, validation.IsDNS1123Subdomain)
	if spec.RuntimeClassName != nil {
		for _, msg := range validation.IsDNS1123Subdomain(*spec.RuntimeClassName) {
			errs = append(errs, field.Invalid(path.Child("runtimeClassName"), *spec.RuntimeClassName, msg))
		}
	}
	if override := spec.HostnameOverride; override != nil {
		if spec.HostNetwork {
			errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), "may not be specified when hostNetwork is true"))
		}
		if spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
			errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), "may not be specified when setHostnameAsFQDN is true"))
		}
		if len(*override) > maxHostnameOverride {
			errs = append(errs, field.TooLong(path.Child("hostnameOverride"), *override, maxHostnameOverride))
		}
		errs = append(errs, values.Invalid(path.Child("hostnameOverride"), *override, validation.IsDNS1123Subdomain(*override))...)
	}
	return errs
}

func gates(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range spec.ReadinessGates {
		errs = append(errs, values.QualifiedName(string(gate.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	seen := sets.New[string]()
	for i, gate := range spec.SchedulingGates {
		at := path.Child("schedulingGates").Index(i)
		errs = append(errs, values.QualifiedName(gate.Name, at)...)
		if seen.Has(gate.Name) {
			errs = append(errs, field.Duplicate(at, gate.Name))
		}
		seen.Insert(gate.Name)
	}
	return errs
}

func hostAliases(aliases []corev1.HostAlias, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, alias := range aliases {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i).Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			for _, msg := range validation.IsDNS1123Subdomain(name) {
				errs = append(errs, field.Invalid(path.Index(i).Child("hostnames").Index(j), name, msg))
			}
		}
	}
	return errs
}

const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
)

func dns(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := values.OneOf(spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	config, at := spec.DNSConfig, path.Child("dnsConfig")
	if spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			return append(errs, field.Required(at, "must provide `dnsConfig` when `dnsPolicy` is None"))
		}
		if len(config.Nameservers) == 0 {
			return append(errs, field.Required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"))
		}
	}
	if config == nil {
		return errs
	}
	if len(config.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(at.Child("nameservers"), config.Nameservers, "must not have more than 3 nameservers"))
	}
	for i, server := range config.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), server, true, nil)...)
	}
	if len(config.Searches) > maxSearches {
		errs = append(errs, field.Invalid(at.Child("searches"), config.Searches, "must not have more than 32 search paths"))
	}
	length := 0
	for i, search := range config.Searches {
		length += len(search) + 1
		if search == "." {
			continue
		}
		for _, msg := range validation.IsDNS1123SubdomainWithUnderscore(trimDot(search)) {
			errs = append(errs, field.Invalid(at.Child("searches").Index(i), search, msg))
		}
	}
	if length > maxSearchLength+1 {
		errs = append(errs, field.Invalid(at.Child("searches"), config.Searches, "must not have more than 2048 characters (including spaces) in the search list"))
	}
	for i, option := range config.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func trimDot(name string) string {
	if len(name) > 1 && name[len(name)-1] == '.' {
		return name[:len(name)-1]
	}
	return name
}

// hostPorts checks that the ports of a pod on the host's network are the host's, and that no two
// containers want the same one. A template may leave host ports unset: its pods get them.
func hostPorts(spec *corev1.PodSpec, isPod bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type hostPort struct {
		protocol corev1.Protocol
		ip       string
		port     int32
	}
	seen := sets.New[hostPort]()
	each := func(list []corev1.Container, all *field.Path, together bool) {
		for i, c := range list {
			used, at := seen, all.Index(i)
			if !together { // Init containers run one after the other. Kubernetes names the first in the error.
				used, at = sets.New[hostPort](), all.Index(0)
			}
			for j, port := range c.Ports {
				portPath := at.Child("ports").Index(j)
				if spec.HostNetwork && together && (isPod || port.HostPort != 0) && port.HostPort != port.ContainerPort {
					errs = append(errs, field.Invalid(portPath.Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true"))
				}
				if port.HostPort == 0 {
					continue
				}
				key := hostPort{port.Protocol, port.HostIP, port.HostPort}
				if used.Has(key) {
					errs = append(errs, field.Duplicate(portPath.Child("hostPort"), hostPortText(key.protocol, key.ip, key.port)))
				}
				used.Insert(key)
			}
		}
	}
	each(spec.Containers, path.Child("containers"), true)
	each(spec.InitContainers, path.Child("initContainers"), false)
	return errs
}
