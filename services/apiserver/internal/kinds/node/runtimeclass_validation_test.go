package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badLabel = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, ResourceVersion: "1"} }

func TestRuntimeClass(t *testing.T) {
	newClass := func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{ObjectMeta: meta("x"), Handler: "runc"} }
	errortest.Exactly(t, validateRuntimeClass(newClass()))
	bad := newClass()
	bad.Handler = "A"
	bad.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("-1")}}
	tolerates := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	bad.Scheduling = &nodev1.Scheduling{
		NodeSelector: map[string]string{"a": "_"}, Tolerations: []corev1.Toleration{tolerates, tolerates, {Operator: corev1.TolerationOpEqual}},
	}
	errortest.Exactly(t, validateRuntimeClass(bad),
		`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
		`scheduling.nodeSelector: Invalid value: "_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		"scheduling.tolerations[2].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
		`scheduling.tolerations[1]: Duplicate value: {"key":"k","operator":"Exists"}`,
		`handler: Invalid value: "A": `+badLabel)
	bad = newClass()
	bad.Handler = strings.Repeat("a", 64)
	errortest.Exactly(t, validateRuntimeClass(bad), `handler: Invalid value: "`+bad.Handler+`": must be no more than 63 bytes`)
	bad.Handler = ""
	errortest.Exactly(t, validateRuntimeClass(bad), "handler: Required value")
	long := newClass()
	long.Handler = strings.Repeat("a", 64)
	errortest.Exactly(t, validateRuntimeClassUpdate(long, newClass()),
		`handler: Invalid value: "`+long.Handler+`": must be no more than 63 characters`, `handler: Invalid value: "`+long.Handler+`": field is immutable`)
	errortest.Exactly(t, validateRuntimeClassUpdate(bad, newClass()), "handler: Required value", `handler: Invalid value: "": field is immutable`)
	changed := newClass()
	changed.Handler, changed.Labels = "kata", map[string]string{"a": "b"}
	errortest.Exactly(t, validateRuntimeClassUpdate(changed, newClass()), `handler: Invalid value: "kata": field is immutable`)
}
