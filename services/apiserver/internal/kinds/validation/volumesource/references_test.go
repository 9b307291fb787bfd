package volumesource

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestResourceRef checks which resources a file can show, and in which unit.
func TestResourceRef(t *testing.T) {
	const at = "v.downwardAPI.resourceFieldRef"
	const decimal = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "
	for _, tc := range []struct {
		resource, divisor string
		want              []string
	}{
		{"limits.cpu", "1m", nil},
		{"requests.cpu", "1k", []string{at + `.divisor: Invalid value: "requests.cpu": only divisor's values 1m and 1 are supported with the cpu resource`}},
		{"limits.memory", "1Ei", nil},
		{"limits.memory", "1m", []string{at + `.divisor: Invalid value: "limits.memory": ` + decimal + "memory resource"}},
		{"limits.memory", "1", nil},
		{"requests.ephemeral-storage", "2", []string{
			at + `.divisor: Invalid value: "requests.ephemeral-storage": ` + decimal + "local ephemeral storage resource",
		}},
		{"limits.hugepages-2Mi", "0", nil},
		{"requests.hugepages-2Mi", "10", []string{at + `.divisor: Invalid value: "requests.hugepages-2Mi": ` + decimal + "hugepages resource"}},
		{"", "1", []string{at + ".resource: Required value"}},
		{"hugepages-2Mi", "3", []string{
			at + `.resource: Unsupported value: "hugepages-2Mi": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", ` +
				`"requests.cpu", "requests.ephemeral-storage", "requests.memory"`,
		}},
	} {
		t.Run(tc.resource+" "+tc.divisor, func(t *testing.T) {
			check(t, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "a", ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: "c", Resource: tc.resource, Divisor: resource.MustParse(tc.divisor),
				},
			}}}}, tc.want...)
		})
	}
}

// TestFieldRef checks which fields of a pod a file can show.
func TestFieldRef(t *testing.T) {
	const at = "v.downwardAPI.fieldRef"
	const qualified = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
		"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	for _, tc := range []struct {
		version, path string
		want          []string
	}{
		{"v1", "metadata.labels", nil},
		{"v1", "metadata.labels['example.com/a']", nil},
		{"v1", "metadata.annotations['Example.com/A']", nil}, // Only keys of annotations may have capital hosts.
		{"v1", "metadata.labels['a b']", []string{at + `: Invalid value: "a b": ` + qualified}},
		{"v1", "metadata.name['a']", []string{
			at + `.fieldPath: Invalid value: "metadata.name['a']": error converting fieldPath: field label does not support subscript: metadata.name['a']`,
		}},
		{"v1", "['a']", []string{at + `.fieldPath: Invalid value: "['a']": error converting fieldPath: field label not supported: ['a']`}},
		{"v1", "a']", []string{at + `.fieldPath: Invalid value: "a']": error converting fieldPath: field label not supported: a']`}},
		// Its name before v1 is read as the present one.
		{"v1", "spec.host", []string{
			at + `.fieldPath: Unsupported value: "spec.nodeName": supported values: ` +
				`"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`,
		}},
		{"v1", "", []string{at + ".fieldPath: Required value"}},
		{"", "", []string{at + ".apiVersion: Required value"}},
		{"v2", "metadata.name", []string{
			at + `.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2`,
		}},
	} {
		t.Run(tc.version+" "+tc.path, func(t *testing.T) {
			check(t, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "a", FieldRef: &corev1.ObjectFieldSelector{APIVersion: tc.version, FieldPath: tc.path},
			}}}}, tc.want...)
		})
	}
}

// TestEnvFields checks the fields that variables can show, which are not those of files.
func TestEnvFields(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name": "", "metadata.namespace": "", "metadata.uid": "", "spec.nodeName": "", "spec.serviceAccountName": "",
		"status.hostIP": "", "status.hostIPs": "", "status.podIP": "", "status.podIPs": "", "spec.host": "",
		"spec.restartPolicy": "Unsupported", "metadata.labels": "Unsupported", "spec.priority": "Invalid",
	} {
		errs := FieldRef(&corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}, EnvFields(), field.NewPath("v"))
		if want == "" {
			errortest.Exactly(t, errs)
			continue
		}
		errortest.Contain(t, errs, "v.fieldPath: "+want+` value: "`+path+`": `)
	}
}
