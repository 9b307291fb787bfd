package e2e_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/garboard/garboard/test/e2e/plane"
)

// waiting sets --wait, for objects that a controller makes ready.
func waiting(install *action.Install) { install.Wait = true }

// unstored leaves out the claim, which no pod uses and no volume is bound to, and the workloads besides the front: the
// story "Helm waits for workloads" has them.
const unstored = "stored=false"

// helmLife follows one release from a dry run to the end of its history.
func helmLife(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "life")

	// A dry run reads the cluster and changes nothing.
	dry := must[*release.Release](t)(h.install(t, "shop", func(install *action.Install) {
		install.DryRun, install.DryRunOption = true, "server"
	}))
	system := field(t, p, "", "namespace/kube-system", ".metadata.uid")
	for _, want := range []string{`system: "` + system + `"`, `budgets: "true"`, `monitors: "false"`, `version: "v1.37`, `kind: PodDisruptionBudget`} {
		if !strings.Contains(dry.Manifest, want) {
			t.Errorf("the dry run's manifest has no %s", want)
		}
	}
	gone(t, p, "", "namespace/life")

	// The chart installs all its kinds, with hooks before them, and renders its notes.
	installed := must[*release.Release](t)(h.install(t, "shop", nil, "greeting=moin"))
	if installed.Info.Status != release.StatusDeployed || strings.TrimSpace(installed.Info.Notes) != "shop says moin in life." {
		t.Errorf("installed: %s, %q", installed.Info.Status, installed.Info.Notes)
	}
	objects := map[string]string{} // kind/name, by kind
	for _, manifest := range releaseutil.SplitManifests(installed.Manifest) {
		kind := regexp.MustCompile(`(?m)^kind: (\S+)`).FindStringSubmatch(manifest)[1]
		name := regexp.MustCompile(`(?m)^  name: (\S+)`).FindStringSubmatch(manifest)[1]
		objects[strings.ToLower(kind)] = strings.ToLower(kind) + "/" + name
	}
	if len(objects) != 16 {
		t.Errorf("the chart has the kinds %v, want 16", slices.Sorted(maps.Keys(objects)))
	}
	for _, object := range objects {
		got := field(t, p, "life", object, `.metadata.labels.app\.kubernetes\.io/managed-by} {.metadata.annotations.meta\.helm\.sh/release-name} {.metadata.annotations.meta\.helm\.sh/release-namespace`)
		if got != "Helm shop life" {
			t.Errorf("%s has the managed-by label %q", object, got)
		}
	}
	if got := h.hooks.String(); got != "prepared revision 1\n" {
		t.Errorf("the hooks wrote %q", got)
	}
	gone(t, p, "life", "pod/shop-prepare")
	if got := field(t, p, "life", "configmap/shop-prepare", ".data.revision"); got != "1" {
		t.Errorf("the hook's config map has revision %q", got)
	}

	// helm test runs twice: the second run must first delete the pod of the first.
	for range 2 {
		test := action.NewReleaseTesting(h.config)
		test.Namespace, test.Timeout = "life", plane.Patience
		tested := must[*release.Release](t)(test.Run("shop"))
		var logs bytes.Buffer
		if err := test.GetPodLogs(&logs, tested); err != nil || !strings.Contains(logs.String(), "tested shop") {
			t.Errorf("the test's pod wrote %q, %v", logs.String(), err)
		}
	}

	// An upgrade that leaves out kinds removes their objects.
	password := field(t, p, "life", "secret/shop-password", ".data.password")
	upgraded := must[*release.Release](t)(h.upgrade(t, "shop", func(upgrade *action.Upgrade) { upgrade.Wait = true }, unstored, "replicas=3"))
	if upgraded.Version != 2 || upgraded.Info.Status != release.StatusDeployed {
		t.Errorf("upgraded: revision %d, %s", upgraded.Version, upgraded.Info.Status)
	}
	available(t, p, "life", 3)
	if got := field(t, p, "life", "secret/shop-password", ".data.password"); got != password || got == "" {
		t.Errorf("the password was %s, and is %s", password, got)
	}
	gone(t, p, "life", "statefulset/shop-store", "daemonset/shop-agent", "cronjob/shop-report", "job/shop-import", "pvc/shop-data")
	h.wantHistory(t, "shop", "1 superseded: Install complete", "2 deployed: Upgrade complete")

	// A second Helm reads what the first one has written.
	other := newHelm(t, p, "life")
	list := must[[]*release.Release](t)(action.NewList(other.config).Run())
	if len(list) != 1 || list[0].Name != "shop" || list[0].Version != 2 {
		t.Errorf("helm list printed %v", list)
	}
	given := must[map[string]any](t)(action.NewGetValues(other.config).Run("shop"))
	if given["replicas"] != 3.0 && given["replicas"] != int64(3) {
		t.Errorf("helm get values printed %v", given)
	}
	status := action.NewStatus(other.config)
	status.ShowResources, status.ShowResourcesTable = true, true
	shown := must[*release.Release](t)(status.Run("shop"))
	if len(shown.Info.Resources["v1/Deployment"]) != 1 || len(shown.Info.Resources["v1/Pod(related)"]) == 0 {
		t.Errorf("helm status shows %v", shown.Info.Resources)
	}

	// A rollback restores what the upgrade removed.
	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.Timeout = 1, plane.Patience
	if err := rollback.Run("shop"); err != nil {
		t.Fatal(err)
	}
	h.wantHistory(t, "shop", "1 superseded: .*", "2 superseded: .*", "3 deployed: Rollback to 1")
	if got := field(t, p, "life", "statefulset/shop-store", ".metadata.name") + field(t, p, "life", "deployment/shop-front", ".spec.replicas"); got != "shop-store2" {
		t.Errorf("rolled back to %q", got)
	}

	// Uninstalling removes everything except the history and what the chart keeps; a second
	// uninstall removes the history.
	uninstall := action.NewUninstall(h.config)
	uninstall.KeepHistory, uninstall.Wait, uninstall.Timeout, uninstall.DeletionPropagation = true, true, plane.Patience, "foreground"
	if said := must[*release.UninstallReleaseResponse](t)(uninstall.Run("shop")); !strings.Contains(said.Info, "[ConfigMap] shop-kept") {
		t.Errorf("helm uninstall printed %q", said.Info)
	}
	h.wantHistory(t, "shop", "1 superseded: .*", "2 superseded: .*", "3 uninstalled: Uninstallation complete")
	for kind, object := range objects {
		if kind != "configmap" { // The chart keeps one of them.
			gone(t, p, "life", object)
		}
	}
	if got := p.Must(t, "", "get", "configmaps,pods,replicasets", "-n", "life", "-o", "name"); got != "configmap/kube-root-ca.crt\nconfigmap/shop-goodbye\nconfigmap/shop-kept\nconfigmap/shop-prepare\npod/shop-test\n" {
		t.Errorf("remaining objects:\n%s", got)
	}
	again := action.NewUninstall(h.config)
	if _, err := again.Run("shop"); err != nil {
		t.Error(err)
	}
	expect(t, p, "", `^$`, "get", "secrets", "-n", "life", "-o", "name")
}

// helmMerge edits what a chart has installed, before an upgrade of the release.
func helmMerge(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "merge")
	must[*release.Release](t)(h.install(t, "shop", waiting, unstored, "farewell=true", "annotations.chart=one", "annotations.other=one"))
	p.Must(t, "", "patch", "deployment", "shop-front", "-n", "merge", "-p", `{"metadata":{"annotations":{"mine":"kept","chart":"two"}},"spec":{"replicas":4,"template":{"spec":{`+
		`"initContainers":[{"name":"mine","image":"busybox"}],"containers":[{"name":"front","image":"nginx:manual","env":[{"name":"MINE","value":"kept"}]}]}}}}`)
	p.Must(t, "", "patch", "configmap", "shop-config", "-n", "merge", "-p", `{"data":{"mine":"kept","greeting":"edited"}}`)
	p.Must(t, "", "delete", "service", "shop-front", "-n", "merge")

	must[*release.Release](t)(h.upgrade(t, "shop", nil, unstored, "annotations.chart=one"))
	for _, c := range []struct{ object, path, want, why string }{
		{"deployment/shop-front", ".metadata.annotations.mine", "kept", "the chart never had it"},
		{"deployment/shop-front", ".metadata.annotations.chart", "one", "the chart sets it"},
		{"deployment/shop-front", ".metadata.annotations.other", "", "the chart no longer has it"},
		{"deployment/shop-front", ".spec.replicas", "2", "the chart sets it"},
		{"deployment/shop-front", ".spec.template.spec.containers[0].image", "nginx:1", "the chart sets it"},
		{"deployment/shop-front", ".spec.template.spec.containers[0].env[*].name", "MINE GREETING PASSWORD", "lists with keys are merged"},
		{"deployment/shop-front", ".spec.template.spec.initContainers[*].name", "mine", "lists with keys are merged"},
		{"configmap/shop-config", ".data.mine", "kept", "the chart never had it"},
		{"configmap/shop-config", ".data.farewell", "", "the chart no longer has it"},
		{"configmap/shop-config", ".data.greeting", "hello", "the chart sets it"},
		{"service/shop-front", ".metadata.name", "shop-front", "it was missing"},
	} {
		got := strings.Fields(field(t, p, "merge", c.object, c.path))
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s%s is %q, want %q: %s", c.object, c.path, got, want, c.why)
		}
	}
}

// helmFailures has upgrades that fail at the apiserver, in a hook, and while waiting.
func helmFailures(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "failures")
	_, err := h.install(t, "shop", func(install *action.Install) { install.Atomic = true }, unstored, "prepareCode=3")
	wantError(t, err, `^release shop failed, and has been uninstalled due to atomic being set: failed pre-install: .*pod shop-prepare failed$`)
	expect(t, p, "", `^$`, "get", "secrets", "-n", "failures", "-o", "name")

	must[*release.Release](t)(h.install(t, "shop", waiting, unstored))
	atomic := func(upgrade *action.Upgrade) { upgrade.Atomic = true }
	_, err = h.upgrade(t, "shop", atomic, unstored, "selector=back", "greeting=refused")
	wantError(t, err, `^release shop failed, and has been rolled back due to atomic being set: cannot patch "shop-front" with kind Deployment: Deployment\.apps "shop-front" is invalid: .*`+
		`spec\.selector: Invalid value: \{"matchLabels":\{"app":"shop","role":"back"\}\}: field is immutable`)
	_, err = h.upgrade(t, "shop", atomic, unstored, "prepareCode=3", "greeting=unprepared")
	wantError(t, err, `^release shop failed, and has been rolled back due to atomic being set: pre-upgrade hooks failed: .*pod shop-prepare failed$`)
	if got := field(t, p, "failures", "configmap/shop-config", ".data.greeting"); got != "hello" {
		t.Errorf("after upgrades that were rolled back, the greeting is %q", got)
	}
	if got := field(t, p, "failures", "deployment/shop-front", ".spec.template.spec.containers[0].env[0].value"); got != "hello" {
		t.Errorf("after upgrades that were rolled back, the front's greeting is %q", got)
	}

	// An object that never becomes ready ends the wait at any timeout. Hooks may take longer, so
	// they are off.
	_, err = h.upgrade(t, "shop", func(upgrade *action.Upgrade) {
		upgrade.Wait, upgrade.Timeout, upgrade.DisableHooks = true, 3*time.Second, true
	}, unstored, "pullError=not there", "greeting=unready")
	wantError(t, err, `context deadline exceeded$`)
	h.wantHistory(t, "shop", "1 superseded: Install complete",
		`2 failed: Upgrade "shop" failed: cannot patch .*`, "3 superseded: Rollback to 1",
		`4 failed: Upgrade "shop" failed: pre-upgrade hooks failed: .*`, "5 deployed: Rollback to 3", `6 failed: .*context deadline exceeded`)
	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.Wait, rollback.Timeout = 5, true, plane.Patience
	if err := rollback.Run("shop"); err != nil {
		t.Error(err)
	}
	available(t, p, "failures", 2)
	rollback.Version = 77
	wantError(t, rollback.Run("shop"), `^release has no 77 version$`)

	must[*release.Release](t)(h.upgrade(t, "shop", nil, unstored, "testCode=1"))
	test := action.NewReleaseTesting(h.config)
	test.Namespace, test.Timeout = "failures", plane.Patience
	_, err = test.Run("shop")
	wantError(t, err, `pod shop-test failed$`)
	_, err = h.install(t, "shop", nil, unstored)
	wantError(t, err, `^cannot re-use a name that is still in use$`)
}

// helmReplaces upgrades with PUTs instead of patches, which must not lose what the apiserver set.
func helmReplaces(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "replaces")
	must[*release.Release](t)(h.install(t, "shop", waiting, unstored))
	address := field(t, p, "replaces", "service/shop-front", ".spec.clusterIP")
	uid := field(t, p, "replaces", "deployment/shop-front", ".metadata.uid")
	p.Must(t, "", "annotate", "deployment", "shop-front", "-n", "replaces", "mine=lost")
	must[*release.Release](t)(h.upgrade(t, "shop", func(upgrade *action.Upgrade) { upgrade.Force, upgrade.Wait = true, true }, unstored, "greeting=replaced"))
	for _, c := range []struct{ object, path, want string }{
		{"service/shop-front", ".spec.clusterIP", address},
		{"deployment/shop-front", ".metadata.uid", uid},
		{"deployment/shop-front", ".metadata.annotations.mine", ""},
		{"deployment/shop-front", ".spec.template.spec.containers[0].env[0].value", "replaced"},
		{"configmap/shop-config", ".data.greeting", "replaced"},
	} {
		if got := field(t, p, "replaces", c.object, c.path); got != c.want {
			t.Errorf("%s%s is %q, want %q", c.object, c.path, got, c.want)
		}
	}
	available(t, p, "replaces", 2)
	expectSoon(t, p, `^2$`, "get", "deployment", "shop-front", "-n", "replaces", "-o", "jsonpath={.status.updatedReplicas}")
}

// helmOwnership installs a chart over existing objects.
func helmOwnership(t *testing.T, p *plane.Plane) {
	p.Must(t, "", "create", "namespace", "owned")
	p.Must(t, "", "create", "configmap", "shop-config", "-n", "owned", "--from-literal=greeting=mine", "--from-literal=more=mine")
	h := newHelm(t, p, "owned")
	_, err := h.install(t, "shop", nil, unstored)
	wantError(t, err, `^Unable to continue with install: ConfigMap "shop-config" in namespace "owned" exists and cannot be imported into the current release: invalid ownership metadata; `+
		`label validation error: missing key "app\.kubernetes\.io/managed-by": must be set to "Helm"; annotation validation error: missing key "meta\.helm\.sh/release-name": must be set to "shop"; `)
	p.Must(t, "", "label", "configmap", "shop-config", "-n", "owned", "app.kubernetes.io/managed-by=Helm")
	p.Must(t, "", "annotate", "configmap", "shop-config", "-n", "owned", "meta.helm.sh/release-name=shop", "meta.helm.sh/release-namespace=owned")
	must[*release.Release](t)(h.install(t, "shop", nil, unstored))
	if got := field(t, p, "owned", "configmap/shop-config", ".data.greeting} {.data.more"); got != "hello mine" {
		t.Errorf("the adopted config map has %q", got)
	}

	// Another release cannot have an object of this one, unless it takes ownership.
	config := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "thief", Version: "0.1.0"},
		Templates: []*chart.File{{Name: "templates/config.yaml", Data: []byte(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop-config}\ndata: {greeting: stolen}\n")}},
	}
	_, err = h.installChart(t, config, "thief", nil)
	wantError(t, err, `annotation validation error: key "meta\.helm\.sh/release-name" must equal "thief": current value is "shop"$`)
	must[*release.Release](t)(h.installChart(t, config, "thief", func(install *action.Install) { install.TakeOwnership = true }))
	if got := field(t, p, "owned", "configmap/shop-config", `.data.greeting} {.metadata.annotations.meta\.helm\.sh/release-name`); got != "stolen thief" {
		t.Errorf("the taken-over config map has %q", got)
	}
}

// helmBadCharts installs charts that Helm or the apiserver refuses.
func helmBadCharts(t *testing.T, p *plane.Plane) {
	h := newHelm(t, p, "bad")
	_, err := h.install(t, "shop", nil, "replicas=many")
	wantError(t, err, `values don't meet the specifications of the schema\(s\) in the following chart\(s\):\nshop:\n.*replicas`)
	_, err = h.install(t, "Shop", nil)
	wantError(t, err, `invalid release name`)

	template := func(name, manifest string) *chart.Chart {
		return &chart.Chart{
			Metadata:  &chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: "0.1.0"},
			Templates: []*chart.File{{Name: "templates/all.yaml", Data: []byte(manifest)}},
		}
	}
	_, err = h.installChart(t, template("unknown", "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: a}\n"), "unknown", nil)
	wantError(t, err, `unable to build kubernetes objects from release manifest: resource mapping not found for name: "a" namespace: "" from "": no matches for kind "Unknown" in version "example\.com/v1"`)
	_, err = h.installChart(t, template("wrong", "apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: [{port: 0}]}\n"), "wrong", nil)
	wantError(t, err, `Service "wrong" is invalid: \[?spec\.ports\[0\]\.port: Invalid value: 0: must be between 1 and 65535, inclusive`)
	h.wantHistory(t, "wrong", `1 failed: Release "wrong" failed: .*spec\.ports\[0\]\.port.*`)
	must[*release.Release](t)(h.installChart(t, template("misspelt", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: misspelt}\ndaat: {a: b}\n"), "misspelt", nil))
	if !h.warned(`^unknown field "daat"$`) {
		t.Errorf("the server warned of %q", h.warnings)
	}

	// The size of a release is bounded, since it is one Secret. The size of a request is bounded
	// too.
	noise := rand.NewChaCha8([32]byte{})
	for size, want := range map[int]string{
		1 << 20: `^create: failed to create: Secret "sh\.helm\.release\.v1\.large\.v1" is invalid: data: Too long: may not be more than 1048576 bytes$`,
		3 << 20: `^create: failed to create: Request entity too large: limit is 3145728$`,
	} {
		large := template("large", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\n")
		data := make([]byte, size)
		if _, err := noise.Read(data); err != nil {
			t.Fatal(err)
		}
		large.Files = []*chart.File{{Name: "noise", Data: data}}
		_, err = h.installChart(t, large, "large", nil)
		wantError(t, err, want)
	}
	gone(t, p, "bad", "configmap/large")
}

// helmRestricted installs a chart as a service account with rights in one namespace only.
func helmRestricted(t *testing.T, p *plane.Plane) {
	p.Must(t, "", "create", "namespace", "few")
	p.Must(t, "", "create", "serviceaccount", "deployer", "-n", "few")
	token := strings.TrimSpace(p.Must(t, "", "create", "token", "deployer", "-n", "few"))
	deployer := p.WithToken(t, token)
	own := func(install *action.Install) { install.CreateNamespace = false }

	h := newHelm(t, deployer, "few")
	_, err := h.install(t, "shop", own, "curious=false")
	wantError(t, err, `secrets "shop-password" is forbidden: User "system:serviceaccount:few:deployer" cannot get resource "secrets" in API group "" in the namespace "few"`)
	p.Must(t, "", "create", "rolebinding", "deployer", "-n", "few", "--clusterrole=admin", "--serviceaccount=few:deployer")
	// The role is aggregated from others, one after the other.
	for _, right := range []string{"create deployments.apps", "create roles.rbac.authorization.k8s.io", "get configmaps", "get secrets"} {
		verb, resource, _ := strings.Cut(right, " ")
		expectSoon(t, p, `^yes\n$`, "auth", "can-i", verb, resource, "-n", "few", "--as=system:serviceaccount:few:deployer")
	}
	expect(t, deployer, "", ``, "get", "secrets", "-n", "few")

	_, err = h.install(t, "shop", own)
	wantError(t, err, `error calling lookup: namespaces "kube-system" is forbidden: User "system:serviceaccount:few:deployer" cannot get resource "namespaces" in API group "" in the namespace "kube-system"`)
	_, err = h.install(t, "shop", own, "curious=false", "rules[0].apiGroups={}", "rules[0].resources={nodes}", "rules[0].verbs={get}")
	wantError(t, err, `roles\.rbac\.authorization\.k8s\.io "shop" is forbidden: user "system:serviceaccount:few:deployer" .*is attempting to grant RBAC permissions not currently held:\n`+
		`\{APIGroups:\[""\], Resources:\["nodes"\], Verbs:\["get"\]\}`)
	must[*release.Release](t)(h.upgrade(t, "shop", nil, "curious=false"))
	h.wantHistory(t, "shop", "1 (failed|superseded): .*", "2 deployed: Upgrade complete")

	_, err = newHelm(t, deployer, "kube-system").install(t, "other", own, "curious=false")
	wantError(t, err, `is forbidden: User "system:serviceaccount:few:deployer" cannot get resource "secrets" in API group "" in the namespace "kube-system"`)
	_, err = newHelm(t, deployer, "none").install(t, "other", nil, "curious=false")
	wantError(t, err, `is forbidden: User "system:serviceaccount:few:deployer" cannot get resource "secrets" in API group "" in the namespace "none"`)
	if _, err := action.NewUninstall(h.config).Run("shop"); err != nil {
		t.Error(err)
	}
}
