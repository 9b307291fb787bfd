package hostports_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/hostports"
)

func TestOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{HostPort: 1}}},
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{{HostPort: 2, Protocol: corev1.ProtocolUDP}}},
		},
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 9}, {HostPort: 3, HostIP: "0.0.0.0"}}}},
	}}
	want := []hostports.Port{{Protocol: corev1.ProtocolTCP, Port: 3}, {Protocol: corev1.ProtocolUDP, Port: 2}}
	if diff := cmp.Diff(want, hostports.Of(p)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestConflicts(t *testing.T) {
	port := func(ip string, number int32, protocol corev1.Protocol) hostports.Port {
		return hostports.Port{IP: ip, Port: number, Protocol: protocol}
	}
	for _, c := range []struct {
		a, b hostports.Port
		want bool
	}{
		{port("", 80, "TCP"), port("", 80, "TCP"), true},
		{port("10.0.0.1", 80, "TCP"), port("", 80, "TCP"), true},
		{port("10.0.0.1", 80, "TCP"), port("10.0.0.2", 80, "TCP"), false},
		{port("10.0.0.1", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true},
		{port("", 80, "TCP"), port("", 80, "UDP"), false},
		{port("", 80, "TCP"), port("", 81, "TCP"), false},
	} {
		if c.a.Conflicts(c.b) != c.want || c.b.Conflicts(c.a) != c.want {
			t.Errorf("%+v and %+v: want %t", c.a, c.b, c.want)
		}
	}
}
