package endpointsubsets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// subset reads "1 2/3 80 81": ready hosts, a slash and hosts that are not, and ports after a colon.
func subset(text string) corev1.EndpointSubset {
	hosts, ports, _ := strings.Cut(text, ":")
	ready, notReady, _ := strings.Cut(hosts, "/")
	addresses := func(names string) (all []corev1.EndpointAddress) {
		for name := range strings.FieldsSeq(names) {
			ip, uid, _ := strings.Cut(name, "@")
			all = append(all, corev1.EndpointAddress{IP: ip, TargetRef: &corev1.ObjectReference{UID: types.UID(uid)}})
		}
		return all
	}
	s := corev1.EndpointSubset{Addresses: addresses(ready), NotReadyAddresses: addresses(notReady)}
	for port := range strings.FieldsSeq(ports) {
		var number int32
		if _, err := fmt.Sscan(port, &number); err != nil {
			panic(err)
		}
		s.Ports = append(s.Ports, corev1.EndpointPort{Port: number, AppProtocol: new(string)})
	}
	return s
}

func TestRepack(t *testing.T) {
	for name, test := range map[string]struct{ in, want []string }{
		"nothing":                       {nil, nil},
		"no ports":                      {[]string{"2 1"}, []string{"1 2"}},
		"the same ports":                {[]string{"1:80", "2:80"}, []string{"1 2:80"}},
		"the same hosts":                {[]string{"1:80", "1:81"}, []string{"1:80 81"}},
		"twice the same":                {[]string{"1:80", "1:80"}, []string{"1:80"}},
		"other ports":                   {[]string{"2:81", "1:80"}, []string{"1:80", "2:81"}},
		"many to many":                  {[]string{"1 2:80", "2 3:81"}, []string{"1 2:80", "2 3:81"}},
		"split by what they share":      {[]string{"1:80 81", "2:80"}, []string{"1 2:80", "1:81"}},
		"ready and not":                 {[]string{"1:80", "/1:80"}, []string{"/1:80"}},
		"not and ready":                 {[]string{"/1:80", "1:80"}, []string{"/1:80"}},
		"ready on one port":             {[]string{"1:80", "/1:81"}, []string{"1:80", "/1:81"}},
		"two pods with one address":     {[]string{"1@b 1@a:80"}, []string{"1@a 1@b:80"}},
		"without ports and with a port": {[]string{"1", "1:80"}, []string{"1:80"}},
		"others without ports":          {[]string{"1", "2:80"}, []string{"1", "2:80"}},
	} {
		var in, want []corev1.EndpointSubset
		for _, text := range test.in {
			in = append(in, subset(text))
		}
		for _, text := range test.want {
			want = append(want, subset(text))
		}
		before := slices.Clone(in)
		got := Repack(in)
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if again := Repack(got); !equality.Semantic.DeepEqual(again, got) {
			t.Errorf("%s: another pass changes it to %+v", name, again)
		}
		slices.Reverse(in)
		if reversed := Repack(in); !equality.Semantic.DeepEqual(reversed, got) {
			t.Errorf("%s: another order leads to %+v", name, reversed)
		}
		slices.Reverse(in)
		if !equality.Semantic.DeepEqual(in, before) {
			t.Errorf("%s: the argument has changed", name)
		}
	}
}
