package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hugePages is how the names of huge page resources begin.
const hugePages = corev1.ResourceHugePagesPrefix

// Resources gives what is wrong with what a container or a pod asks for.
func Resources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := resourceList(r.Limits, path.Child("limits"))
	errs = append(errs, resourceList(r.Requests, path.Child("requests"))...)
	for _, name := range sortedNames(r.Requests) {
		request, at := r.Requests[name], path.Child("requests")
		limit, limited := r.Limits[name]
		switch {
		case limited && !overcommits(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case !limited && !overcommits(name):
			errs = append(errs, field.Required(path.Child("limits"), "Limit must be set for non overcommitable resources"))
		}
	}
	if has(r, func(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), hugePages) }) &&
		!has(r, func(name corev1.ResourceName) bool {
			return name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

// has says whether requirements name a resource that is wanted.
func has(r *corev1.ResourceRequirements, wanted func(corev1.ResourceName) bool) bool {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if wanted(name) {
				return true
			}
		}
	}
	return false
}

// wholePages says what is wrong with an amount of huge pages that is no multiple of their size.
func wholePages(name corev1.ResourceName, quantity resource.Quantity) string {
	text, huge := strings.CutPrefix(string(name), hugePages)
	if !huge {
		return ""
	}
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 || quantity.Value()%size.Value() == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)
}

func resourceList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(list) {
		quantity, at := list[name], path.Key(string(name))
		errs = append(errs, resourceName(name, at)...)
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be greater than or equal to 0"))
		}
		if !native(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be an integer"))
		}
		if msg := wholePages(name, quantity); msg != "" {
			errs = append(errs, field.Invalid(at, quantity.String(), msg))
		}
	}
	return errs
}

// resourceName checks the name of a resource that a container may ask for.
func resourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := qualified(string(name), path); len(errs) > 0 {
		return errs
	}
	if strings.Contains(string(name), "/") {
		if strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
			return field.ErrorList{field.Invalid(path, name, "doesn't follow extended resource name standard")}
		}
		for _, msg := range validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix + string(name)) {
			return field.ErrorList{field.Invalid(path, name, msg)}
		}
		return nil
	}
	if !native(name) {
		return field.ErrorList{
			field.Invalid(path, name, "must be a standard resource type or fully qualified"),
			field.Invalid(path, name, "must be a standard resource for containers"),
		}
	}
	return nil
}

func native(name corev1.ResourceName) bool {
	return overcommits(name) || strings.HasPrefix(string(name), hugePages)
}

// overcommits says whether a container may have a limit above its request.
func overcommits(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// resourceRef checks a reference to a container's resources; a volume must name the container.
func resourceRef(ref *corev1.ResourceFieldSelector, volume bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	allowed := []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"}
	switch {
	case volume && ref.ContainerName == "":
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	case ref.Resource == "":
		errs = append(errs, field.Required(path.Child("resource"), ""))
	case !slices.Contains(allowed, ref.Resource) && !strings.HasPrefix(ref.Resource, "limits."+hugePages) && !strings.HasPrefix(ref.Resource, "requests."+hugePages):
		errs = append(errs, field.NotSupported(path.Child("resource"), ref.Resource, allowed))
	}
	return append(errs, divisor(ref, path)...)
}

func divisor(ref *corev1.ResourceFieldSelector, path *field.Path) field.ErrorList {
	if ref.Divisor.IsZero() {
		return nil
	}
	allowed, text, what := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}, "", ""
	text = strings.Join(allowed, ", ")
	switch _, name, _ := strings.Cut(ref.Resource, "."); {
	case name == string(corev1.ResourceCPU):
		allowed, text, what = []string{"1m", "1"}, "1m and 1", "cpu"
	case name == string(corev1.ResourceMemory):
		what = "memory"
	case name == string(corev1.ResourceEphemeralStorage):
		what = "local ephemeral storage"
	case strings.HasPrefix(name, hugePages):
		what = "hugepages"
	default:
		return nil
	}
	if slices.Contains(allowed, ref.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("divisor"), ref.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", text, what))}
}

func envFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func volumeFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

// fieldRef checks a reference to a field of the pod; subscripts of labels and annotations are
// allowed everywhere.
func fieldRef(ref *corev1.ObjectFieldSelector, allowed []string, path *field.Path) field.ErrorList {
	switch {
	case ref.APIVersion == "":
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	case ref.FieldPath == "":
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	case ref.APIVersion != "v1":
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), ref.FieldPath, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", ref.APIVersion))}
	}
	base, key, subscripted := subscript(ref.FieldPath)
	if !subscripted {
		if !slices.Contains(allowed, ref.FieldPath) {
			return field.ErrorList{field.NotSupported(path.Child("fieldPath"), ref.FieldPath, allowed)}
		}
		return nil
	}
	switch base {
	case "metadata.annotations":
		key = strings.ToLower(key)
	case "metadata.labels":
	default:
		return field.ErrorList{field.Invalid(path, base, "does not support subscript")}
	}
	return qualified(key, path)
}

// subscript splits "a.b['c']" into "a.b" and "c".
func subscript(fieldPath string) (base, key string, ok bool) {
	rest, found := strings.CutSuffix(fieldPath, "']")
	if !found {
		return fieldPath, "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	if !ok || base == "" {
		return fieldPath, "", false
	}
	return base, key, true
}
