package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/target"
)

const (
	policiesPath   = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	bindingsPath   = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	configMapsPath = "/api/v1/namespaces/" + namespace + "/configmaps"
	// policyPause is the time in which an apiserver learns of a policy, or of its end. Kubernetes looks for
	// changes of policies every second.
	policyPause = 3 * time.Second
)

// allow is a policy that allows every write of a ConfigMap.
const allow = `{
"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "allow"},
"spec": {
  "failurePolicy": "Fail",
  "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
  "validations": [{"expression": "true"}]
}}`

const allowBinding = `{
"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "allow"},
"spec": {"policyName": "allow", "validationActions": ["Deny"]}}`

// policies measures what a policy that allows everything adds to a write.
func (b *bench) policies(ctx context.Context) error {
	clients := map[*side][]*rest.RESTClient{}
	err := b.eachSide(func(s *side) (err error) {
		if clients[s], err = s.Connect(ctx, writers, json); err != nil {
			return err
		}
		if err := makeNamespace(ctx, clients[s][0]); err != nil {
			return err
		}
		if err := post(ctx, clients[s][0], policiesPath, []byte(allow)); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return spread(ctx, clients[s], b.requests, writeConfigMap)
	})
	if err != nil {
		return err
	}
	b.compareTable(fmt.Sprintf("A policy that allows all: %d updates of ConfigMaps by %d clients", b.requests, writers), "policy", "µs of CPU")
	var without, with [][]target.Cost
	for turn := range b.repeats {
		for step := range 2 {
			bound := (turn+step)%2 == 0
			if err := b.eachSide(func(s *side) error { return bind(ctx, clients[s][0], bound) }); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(policyPause):
			}
			costs, err := b.once(turn, func(s *side) error { return spread(ctx, clients[s], b.requests, writeConfigMap) })
			if err != nil {
				return err
			}
			if bound {
				with = appendEach(with, costs)
			} else {
				without = appendEach(without, costs)
			}
		}
	}
	b.compareRow("none", without, b.requests, time.Microsecond)
	b.compareRow("one", with, b.requests, time.Microsecond)
	b.compareRow("difference", minus(with, without), b.requests, time.Microsecond)
	return nil
}

// writeConfigMap creates or replaces ConfigMap number n.
func writeConfigMap(ctx context.Context, client *rest.RESTClient, n int) error {
	name := "map-" + strconv.Itoa(n)
	body := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}, "data": {"key": "%d"}}`, name, time.Now().UnixNano())
	err := request(client.Put().AbsPath(configMapsPath, name), body).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return post(ctx, client, configMapsPath, body)
	}
	return err
}

// bind puts the policy into force, or ends that.
func bind(ctx context.Context, client *rest.RESTClient, bound bool) error {
	if bound {
		err := post(ctx, client, bindingsPath, []byte(allowBinding))
		return ignore(err, apierrors.IsAlreadyExists)
	}
	return ignore(client.Delete().AbsPath(bindingsPath, "allow").Do(ctx).Error(), apierrors.IsNotFound)
}

// minus returns the differences of costs, turn by turn.
func minus(a, b [][]target.Cost) [][]target.Cost {
	rest := make([][]target.Cost, len(a))
	for side := range a {
		for turn := range a[side] {
			c := target.Cost{Took: a[side][turn].Took - b[side][turn].Took}
			for p := range a[side][turn].CPU {
				c.CPU = append(c.CPU, a[side][turn].CPU[p]-b[side][turn].CPU[p])
			}
			rest[side] = append(rest[side], c)
		}
	}
	return rest
}
