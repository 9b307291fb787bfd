package volumesource

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ResourceRef validates a reference to a container's resources; a volume must name the container.
func ResourceRef(ref *corev1.ResourceFieldSelector, volume bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	allowed := []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"}
	switch {
	case volume && ref.ContainerName == "":
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	case ref.Resource == "":
		errs = append(errs, field.Required(path.Child("resource"), ""))
	case !slices.Contains(allowed, ref.Resource) && !strings.HasPrefix(ref.Resource, "limits."+corev1.ResourceHugePagesPrefix) && !strings.HasPrefix(ref.Resource, "requests."+corev1.ResourceHugePagesPrefix):
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
	case strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		what = "hugepages"
	default:
		return nil
	}
	if slices.Contains(allowed, ref.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("divisor"), ref.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", text, what))}
}

// EnvFields returns the fields of a pod that environment variables can reference.
func EnvFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func volumeFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

// FieldRef validates a reference to a field of the pod; subscripts of labels and annotations are
// allowed everywhere.
func FieldRef(ref *corev1.ObjectFieldSelector, allowed []string, path *field.Path) field.ErrorList {
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
		return plainField(ref.FieldPath, allowed, path.Child("fieldPath"))
	}
	switch base {
	case "metadata.annotations":
		key = strings.ToLower(key)
	case "metadata.labels":
	default:
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), ref.FieldPath,
			"error converting fieldPath: field label does not support subscript: "+ref.FieldPath)}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(path, key, msg))
	}
	return errs
}

// plainField checks a field without a subscript. Kubernetes knows more fields than can be used.
func plainField(name string, allowed []string, path *field.Path) field.ErrorList {
	if name == "spec.host" { // Its name before v1.
		name = "spec.nodeName"
	}
	known := slices.Concat(EnvFields(), volumeFields(), []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"})
	switch {
	case !slices.Contains(known, name):
		return field.ErrorList{field.Invalid(path, name, "error converting fieldPath: field label not supported: "+name)}
	case !slices.Contains(allowed, name):
		return field.ErrorList{field.NotSupported(path, name, allowed)}
	}
	return nil
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
