package differences_test

import (
	"encoding/json"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/conformance"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/differences"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// TestNobodyIsHurt has a case for each difference.
func TestNobodyIsHurt(t *testing.T) {
	shown := map[string]func(*testing.T){
		"error metadata.generateName": unchangedPrefixIsAccepted,
		"error spec.ports[].nodePort": repeatedPortIsRejected,
		"error metadata.finalizers[]": finalizersOfCronJobsChange,
	}
	for _, d := range differences.All() {
		show := shown[d.What]
		if show == nil || d.Text == "" || d.Why == "" {
			t.Errorf("nothing shows that %q hurts nobody", d.What)
			continue
		}
		t.Run(d.What, show)
	}
	if differences.Known("v1 Pod", "error spec.nodeName") || !differences.Known("v1 Pod", "error metadata.generateName") {
		t.Error("the list does not find what it holds")
	}
}

// finalizersOfCronJobsChange adds well-formed and malformed finalizers to a cron job, by its status and as a
// whole: the one way accepts exactly what the other does.
func finalizersOfCronJobsChange(t *testing.T) {
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	kind := table.Kind(batchv1.SchemeGroupVersion.WithKind("CronJob"))
	rules, old := conformance.New(table), set.Of(kind)
	old.SetUID(conformance.UID)
	old.SetResourceVersion("7")
	for _, before := range [][]string{nil, {"example.com/a"}} {
		old.SetFinalizers(before)
		for name, ok := range map[string]bool{"example.com/b": true, "orphan": true, "malformed": false, "": false} {
			obj := old.DeepCopyObject().(scheme.Object)
			obj.SetFinalizers([]string{name})
			c := conformance.Case{Kind: kind.GroupVersionKind}
			if c.Object, err = json.Marshal(obj); err != nil {
				t.Fatal(err)
			}
			if c.Old, err = json.Marshal(old); err != nil {
				t.Fatal(err)
			}
			for _, op := range []string{conformance.OpUpdate, conformance.OpUpdate + "/status"} {
				c.Op = op
				if answer, err := rules.Answer(c); err != nil || (len(answer.Errors) == 0) != ok {
					t.Errorf("%s from finalizers %q to %q: %v %v", op, before, name, answer.Errors, err)
				}
			}
		}
	}
}

// unchangedPrefixIsAccepted updates an object of every kind that has a valid prefix.
func unchangedPrefixIsAccepted(t *testing.T) {
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	rules := conformance.New(table)
	for _, kind := range table.Kinds() {
		if kind.Virtual || kind.Kind == "APIService" || kind.Kind == "CustomResourceDefinition" || kind.Kind == "IPAddress" { // What they are about names them.
			continue
		}
		obj := set.Of(kind)
		obj.SetGenerateName("sample-")
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		c := conformance.Case{Kind: kind.GroupVersionKind, Op: conformance.OpCreate, Object: data}
		created, err := rules.Answer(c)
		if err != nil || len(created.Errors) > 0 {
			t.Errorf("creating a %s: %v %v", kind.Kind, created.Errors, err)
			continue
		}
		stored := kind.New()
		if err := json.Unmarshal(created.Stored, stored); err != nil {
			t.Fatal(err)
		}
		stored.SetResourceVersion("7")
		if c.Old, err = json.Marshal(stored); err != nil {
			t.Fatal(err)
		}
		c.Op, c.Object = conformance.OpUpdate, c.Old
		if updated, err := rules.Answer(c); err != nil || len(updated.Errors) > 0 {
			t.Errorf("updating a %s: %v %v", kind.Kind, updated.Errors, err)
		}
	}
}

// repeatedPortIsRejected creates services with repeated ports, with and without node ports.
func repeatedPortIsRejected(t *testing.T) {
	table := scheme.New()
	rules := conformance.New(table)
	const port, nodePort = "spec.ports[1]: Duplicate value: ", "spec.ports[1].nodePort: Duplicate value: "
	for _, serviceType := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
		for _, tc := range []struct {
			ports [2]corev1.ServicePort
			want  []string
		}{
			{[2]corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 80}}, []string{port}},
			{[2]corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30001}, {Name: "b", Port: 80}}, []string{port}},
			{[2]corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30001}, {Name: "b", Port: 81, NodePort: 30001}}, []string{nodePort}},
		} {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Type: serviceType, Ports: tc.ports[:]}}
			service.Name, service.Namespace = "s", "default"
			data, err := json.Marshal(service)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := rules.Answer(conformance.Case{Kind: corev1.SchemeGroupVersion.WithKind("Service"), Op: conformance.OpCreate, Object: data})
			if err != nil || !slices.Equal(answer.Errors, tc.want) {
				t.Errorf("creating a service with ports %v: got %q, %v, want %q", tc.ports, answer.Errors, err, tc.want)
			}
		}
	}
}
