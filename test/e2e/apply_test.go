package e2e_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestServerSideApply checks `kubectl apply --server-side`: what it prints, which manager then owns
// which field, and which manager may change it.
func TestServerSideApply(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	for _, part := range []struct {
		name string
		run  func(t *testing.T, p *plane.Plane)
	}{
		{"conflicts", applyConflicts},
		{"replicas", applyReplicas},
		{"taking over from the client's side", applyTakesOver},
		{"going back to the client's side", applyGoesBack},
		{"subresources", applySubresources},
		{"wrong input", applyWrongInput},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, p) })
	}
}

// shopConfig returns the manifest of a ConfigMap. changes are pairs of an old and a new text to
// replace in it.
func shopConfig(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(`apiVersion: v1
kind: ConfigMap
metadata: {name: shop, labels: {app: shop}}
data: {color: red, size: big}
`)
}

func applyConflicts(t *testing.T, p *plane.Plane) {
	expect(t, p, shopConfig(), `^configmap/shop serverside-applied \(server dry run\)\n$`, "apply", "--server-side", "--dry-run=server", "-f", "-")
	expectFailure(t, p, `^Error from server \(NotFound\): configmaps "shop" not found\n$`, "get", "configmap", "shop")
	expect(t, p, shopConfig(), `^configmap/shop serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `(?s)^apiVersion: v1\ndata:\n.*metadata:\n  creationTimestamp: `, "get", "configmap", "shop", "-o", "yaml")
	expect(t, p, "", `(?s)  managedFields:\n  - apiVersion: v1\n    fieldsType: FieldsV1\n    fieldsV1:\n      f:data:\n        f:color: \{\}\n        f:size: \{\}\n`+
		`      f:metadata:\n        f:labels:\n          f:app: \{\}\n    manager: kubectl\n    operation: Apply\n    time: "[^"]+"\n`,
		"get", "configmap", "shop", "-o", "yaml", "--show-managed-fields")

	expectFailureStdin(t, p, shopConfig("red", "blue", ", size: big", ""), `^error: Apply failed with 1 conflict: conflict with "kubectl": \.data\.color\n`+
		`Please review the fields above--they currently have other managers\. Here\nare the ways you can resolve this warning:\n`, "apply", "--server-side", "--field-manager=painter", "-f", "-")
	expectFailureStdin(t, p, shopConfig("red", "blue", "big", "small"), `^error: Apply failed with 2 conflicts: conflicts with "kubectl":\n- \.data\.color\n- \.data\.size\n`,
		"apply", "--server-side", "--field-manager=painter", "-f", "-")
	expect(t, p, shopConfig("red", "blue", ", size: big", ""), `^configmap/shop serverside-applied\n$`, "apply", "--server-side", "--field-manager=painter", "--force-conflicts", "-f", "-")
	expect(t, p, "", `^blue big$`, "get", "configmap", "shop", "-o", "jsonpath={.data.color} {.data.size}")
	expectFailureStdin(t, p, shopConfig(), `^error: Apply failed with 1 conflict: conflict with "painter": \.data\.color\n`, "apply", "--server-side", "-f", "-")
	// A manager that drops a field leaves it to the other managers that own it.
	expect(t, p, shopConfig("color: red, ", ""), `^configmap/shop serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^blue big$`, "get", "configmap", "shop", "-o", "jsonpath={.data.color} {.data.size}")
	expect(t, p, shopConfig("data: {color: red, size: big}\n", ""), `^configmap/shop serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^\{"color":"blue"\}$`, "get", "configmap", "shop", "-o", "jsonpath={.data}")
	res := p.Kubectl(t, shopConfig("red", "green"), "diff", "--server-side", "--force-conflicts", "-f", "-")
	if res.Code != 1 || !strings.Contains(res.Stdout, "\n-  color: blue\n+  color: green\n+  size: big\n") {
		t.Errorf("kubectl diff: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// applyReplicas checks that a scaler can own the replicas of a Deployment whose manifest omits
// them.
func applyReplicas(t *testing.T, p *plane.Plane) {
	expect(t, p, web(), `^deployment\.apps/web serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^deployment\.apps/web scaled\n$`, "scale", "deployment", "web", "--replicas=3")
	expectFailureStdin(t, p, web(), `^error: Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: \.spec\.replicas\n`, "apply", "--server-side", "-f", "-")
	expect(t, p, web("  replicas: 2\n", ""), `^deployment\.apps/web serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^3$`, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	expect(t, p, "", `successfully rolled out\n$`, "rollout", "status", "deployment/web")
	// Controllers and node agents own the fields they write, under the names of their programs.
	expect(t, p, "", `(^| )kube-controller-manager Update/status( |$)`, "get", "deployment", "web", "--show-managed-fields",
		"-o", `jsonpath={range .metadata.managedFields[*]}{.manager} {.operation}/{.subresource} {end}`)
	expect(t, p, "", `^kube-controller-manager/ kubelet/status $`, "get", "pod", "-l", "app=web", "--show-managed-fields",
		"-o", `jsonpath={range .items[0].metadata.managedFields[*]}{.manager}/{.subresource} {end}`)
	// Another manager may add an item to a list whose items have keys.
	sidecar := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: sidecar, image: side}]}}}\n"
	expect(t, p, sidecar, `^deployment\.apps/web serverside-applied\n$`, "apply", "--server-side", "--field-manager=injector", "-f", "-")
	expect(t, p, web("  replicas: 2\n", "", "nginx:1", "nginx:2"), `^deployment\.apps/web serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^(nginx:2 side|side nginx:2)$`, "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
}

func applyTakesOver(t *testing.T, p *plane.Plane) {
	config := shopConfig("name: shop", "name: taken")
	expect(t, p, config, `^configmap/taken created\n$`, "apply", "-f", "-")
	expect(t, p, "", `^kubectl-client-side-apply Update$`, "get", "configmap", "taken", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager} {.metadata.managedFields[*].operation}")
	expect(t, p, strings.Replace(config, "red", "blue", 1), `^configmap/taken serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^kubectl-last-applied kubectl Apply blue$`, "get", "configmap", "taken", "--show-managed-fields",
		"-o", `jsonpath={.metadata.managedFields[?(@.operation=="Apply")].manager} {.metadata.managedFields[0].operation} {.data.color}`)
	// A field dropped from the manifest is removed, although client-side apply set it.
	expect(t, p, strings.Replace(config, ", size: big", "", 1), `^configmap/taken serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, "", `^\{"color":"red"\}$`, "get", "configmap", "taken", "-o", "jsonpath={.data}")
}

func applyGoesBack(t *testing.T, p *plane.Plane) {
	config := shopConfig("name: shop", "name: back")
	expect(t, p, config, `^configmap/back created\n$`, "apply", "-f", "-")
	expect(t, p, config, `^configmap/back serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	expect(t, p, strings.Replace(config, ", size: big", "", 1), `^configmap/back configured\n$`, "apply", "-f", "-")
	expect(t, p, "", `^\{"color":"red"\}$`, "get", "configmap", "back", "-o", "jsonpath={.data}")
}

func applySubresources(t *testing.T, p *plane.Plane) {
	expect(t, p, shopConfig("ConfigMap", "Pod", "name: shop", "name: sub", "data: {color: red, size: big}", "spec: {containers: [{name: c, image: i}]}"),
		`^pod/sub serverside-applied\n$`, "apply", "--server-side", "-f", "-")
	status := "apiVersion: v1\nkind: Pod\nmetadata: {name: sub}\nstatus: {conditions: [{type: example.com/warm, status: \"True\"}]}\n"
	expect(t, p, status, `^pod/sub serverside-applied\n$`, "apply", "--server-side", "--subresource=status", "--field-manager=warmer", "-f", "-")
	expect(t, p, "", `^True$`, "get", "pod", "sub", "-o", `jsonpath={.status.conditions[?(@.type=="example.com/warm")].status}`)
	expect(t, p, "", `^status$`, "get", "pod", "sub", "--show-managed-fields", "-o", `jsonpath={.metadata.managedFields[?(@.manager=="warmer")].subresource}`)
}

func applyWrongInput(t *testing.T, p *plane.Plane) {
	expectFailureStdin(t, p, shopConfig("color: red", "color: [red]"), `^Error from server: failed to create typed patch object \(default/shop; /v1, Kind=ConfigMap\): \.data\.color: expected string, got &value\.valueUnstructured`,
		"apply", "--server-side", "--validate=false", "-f", "-")
	expectFailureStdin(t, p, shopConfig("\ndata:", "\ndate:"), `^Error from server: failed to create typed patch object \(default/shop; /v1, Kind=ConfigMap\): \.date: field not declared in schema\n$`,
		"apply", "--server-side", "--validate=false", "-f", "-")
	expectFailureStdin(t, p, shopConfig("name: shop", "name: Sh_op"), `^The ConfigMap "Sh_op" is invalid: metadata\.name: Invalid value: "Sh_op": `, "apply", "--server-side", "-f", "-")
	expectFailureStdin(t, p, shopConfig("name: shop", "generateName: shop-"), `cannot use generate name with apply\n$`, "apply", "--server-side", "-f", "-")
	expectFailureStdin(t, p, shopConfig("{name: shop", "{name: shop, managedFields: []"), `^Error from server \(BadRequest\): metadata\.managedFields must be nil\n$`, "apply", "--server-side", "-f", "-")
}
