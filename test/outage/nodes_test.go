package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCompareRunning(t *testing.T) {
	const text = `{"ID":"1","Labels":{"io.cri-containerd.kind":"container","io.kubernetes.pod.uid":"u","io.kubernetes.pod.name":"p","io.kubernetes.container.name":"main"}}
{"ID":"2","Labels":{"io.cri-containerd.kind":"sandbox","io.kubernetes.pod.uid":"u","io.kubernetes.pod.name":"p"}}`
	one, err := parseRunning(text)
	if err != nil || len(one) != 2 {
		t.Fatalf("read %+v, %v", one, err)
	}
	if _, err := parseRunning(text + "{"); err == nil {
		t.Error("half an object is accepted")
	}
	pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n1"}}}
	for _, test := range []struct {
		name  string
		pods  []corev1.Pod
		found map[string][]running
		fault string
	}{
		{name: "once", pods: pods, found: map[string][]running{"n1": one, "n2": nil}},
		{name: "not at all", pods: pods, found: map[string][]running{"n1": nil}},
		{name: "twice on a node", pods: pods, found: map[string][]running{"n1": append(one, one...)}, fault: "runs twice"},
		{name: "on two nodes", pods: pods, found: map[string][]running{"n1": one, "n2": one}, fault: "runs twice"},
		{name: "on another node", pods: pods, found: map[string][]running{"n2": one}, fault: "belongs to the node n1"},
		{name: "deleted", found: map[string][]running{"n1": one}, fault: "whose pod does not exist"},
	} {
		err := compareRunning(test.pods, test.found)
		if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
