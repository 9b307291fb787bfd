package e2e_test

import (
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/garboard/garboard/test/e2e/plane"
)

// policyTypesAreChecked creates a policy with wrong types, whose status says so by the schemas that the apiserver
// publishes, and mends it.
func policyTypesAreChecked(t *testing.T, p *plane.Plane, _ kubernetes.Interface) {
	const path = "jsonpath={.status.observedGeneration} {.status.typeChecking.expressionWarnings[*].fieldRef}"
	expect(t, p, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: typed}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]},
		validations: [{expression: 'object.spec.replicas > "many"'}, {expression: 'object.nothing == 1'},
		{expression: 'object.spec.template.spec.containers.all(c, c.image != "" && c.ports.exists(p, p.containerPort > 1))'},
		{expression: 'object.spec.template.spec.containers.all(c, c.img != "")'}]}}`, `created`, "create", "-f", "-")
	expectSoon(t, p, `^1 spec\.validations\[0\]\.expression spec\.validations\[1\]\.expression spec\.validations\[3\]\.expression$`,
		"get", "validatingadmissionpolicy", "typed", "-o", path)
	expect(t, p, "", `^apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'nothing'\n`,
		"get", "validatingadmissionpolicy", "typed", "-o", "jsonpath={.status.typeChecking.expressionWarnings[1].warning}")
	expect(t, p, "", `patched`, "patch", "validatingadmissionpolicy", "typed", "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/validations", "value": [{"expression": "object.spec.replicas > 1"}]}]`)
	expectSoon(t, p, `^2 $`, "get", "validatingadmissionpolicy", "typed", "-o", path)
	p.Must(t, "", "delete", "validatingadmissionpolicy", "typed")
}
