package env

import (
	"context"
	"net"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceVars returns the variables for the Services of the pod's namespace (unless
// enableServiceLinks is false) and for the apiserver's own Service (Kubernetes, "Environment
// variables" of Services).
func serviceVars(ctx context.Context, pod *corev1.Pod, refs References) ([]Var, error) {
	chosen := map[string]*corev1.Service{}
	take := func(namespace string, keep func(string) bool) error {
		services, err := refs.Services(ctx, namespace)
		if err != nil {
			return err
		}
		for _, service := range services {
			if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone || !keep(service.Name) {
				continue
			}
			chosen[service.Name] = service
		}
		return nil
	}
	if err := take(metav1.NamespaceDefault, func(name string) bool { return name == "kubernetes" }); err != nil {
		return nil, err
	}
	if links := pod.Spec.EnableServiceLinks; links == nil || *links {
		if err := take(pod.Namespace, func(string) bool { return true }); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(chosen))
	for name := range chosen {
		names = append(names, name)
	}
	sort.Strings(names)
	var vars []Var
	for _, name := range names {
		vars = append(vars, varsOf(chosen[name])...)
	}
	return vars, nil
}

func varsOf(service *corev1.Service) []Var {
	if len(service.Spec.Ports) == 0 {
		return nil
	}
	prefix := variableName(service.Name)
	ip, first := service.Spec.ClusterIP, service.Spec.Ports[0]
	vars := []Var{
		{prefix + "_SERVICE_HOST", ip},
		{prefix + "_SERVICE_PORT", strconv.Itoa(int(first.Port))},
	}
	for _, port := range service.Spec.Ports {
		if port.Name != "" {
			vars = append(vars, Var{prefix + "_SERVICE_PORT_" + variableName(port.Name), strconv.Itoa(int(port.Port))})
		}
	}
	for i, port := range service.Spec.Ports {
		protocol := "TCP"
		if port.Protocol != "" {
			protocol = string(port.Protocol)
		}
		number := strconv.Itoa(int(port.Port))
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
		if i == 0 {
			vars = append(vars, Var{prefix + "_PORT", url})
		}
		port := prefix + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		vars = append(vars, Var{port, url}, Var{port + "_PROTO", strings.ToLower(protocol)},
			Var{port + "_PORT", number}, Var{port + "_ADDR", ip})
	}
	return vars
}

func variableName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
