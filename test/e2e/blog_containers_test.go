//go:build containers

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// blog is a release of the chart of that name on two nodes.
type blog struct {
	*cluster
	helm *helm
}

// TestHelmStack: a chart with a database in a volume, a web server before it, and a CronJob works as on Kubernetes:
// its page is served, and its posts outlive pods, upgrades and the release.
func TestHelmStack(t *testing.T) {
	b := &blog{cluster: startCluster(t, 2, everywhere)}
	for _, version := range []string{"1", "2"} {
		b.nodes.List[0].Build(t, "blog", harness.Image{
			Repository: "library/blog", Tags: []string{version}, Path: "/blog", Entrypoint: []string{"/blog"}, Env: []string{"BLOG_VERSION=" + version},
		})
	}
	b.helm = newHelm(t, b.Plane, "blog")
	b.install(t)
	b.shows(t, "<h1>Log of a plane</h1>", "<p>hello, world</p>", "blog 1")
	b.comment(t, "a comment")
	b.shows(t, "<p>a comment</p>")

	b.Must(t, "", "-n", "blog", "create", "job", "now", "--from=cronjob/blog-report")
	b.Must(t, "", "-n", "blog", "wait", "--for=condition=complete", "job/now", "--timeout=3m")
	b.shows(t, "<p>there are 2 posts</p>")
	b.test(t)

	b.Must(t, "", "-n", "blog", "delete", "pod", "blog-store-0")
	b.Must(t, "", "-n", "blog", "rollout", "status", "statefulset/blog-store", "--timeout=3m")
	b.shows(t, "<p>hello, world</p>", "<p>a comment</p>")

	b.upgrade(t)
	b.shows(t, "<h1>Log of two planes</h1>", "<p>a comment</p>", "blog 2")

	rollback := action.NewRollback(b.helm.config)
	rollback.Version, rollback.Timeout, rollback.Wait = 1, plane.Patience, true
	if err := rollback.Run("blog"); err != nil {
		t.Fatal(err)
	}
	b.shows(t, "<h1>Log of a plane</h1>", "<p>a comment</p>", "blog 1")

	b.uninstall(t)
	b.install(t)
	b.shows(t, "<p>a comment</p>")
	b.uninstall(t)
	b.Must(t, "", "-n", "blog", "delete", "pvc", "--all")
	plane.Eventually(t, "the volume to go", func(context.Context) error {
		if left := b.Must(t, "", "get", "pv", "-o", "name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// chart loads the chart, which Helm modifies.
func (b *blog) chart(t *testing.T) *chart.Chart {
	t.Helper()
	return must[*chart.Chart](t)(loader.Load("testdata/charts/blog"))
}

func (b *blog) install(t *testing.T) {
	t.Helper()
	must[*release.Release](t)(b.helm.installChart(t, b.chart(t), "blog", waiting))
}

// upgrade runs `helm upgrade --wait`, and fails the test if a request is lost meanwhile.
func (b *blog) upgrade(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asked, lost := 0, []error(nil)
	asking.Go(func() {
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			asked++
			if _, err := b.page(asked % len(b.nodes.List)); err != nil {
				lost = append(lost, err)
			}
		}
	})
	upgrade := action.NewUpgrade(b.helm.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.Wait = "blog", plane.Patience, true
	// The store keeps its image: the one of its tier that serves would be away for a moment.
	upgraded, err := upgrade.RunWithContext(t.Context(), "blog", b.chart(t), b.helm.values(t, "webImage=blog:2", "replicas=3", "title=Log of two planes"))
	cancel()
	asking.Wait()
	if err != nil || upgraded.Version != 2 {
		t.Fatalf("upgrading: %+v, %v", upgraded, err)
	}
	t.Logf("%d requests during the upgrade", asked)
	if asked == 0 || len(lost) > 0 {
		t.Errorf("of %d requests during the upgrade %d were lost: %v", asked, len(lost), errors.Join(lost...))
	}
}

// test runs `helm test`, whose pod reads the page by the Service's full name.
func (b *blog) test(t *testing.T) {
	t.Helper()
	test := action.NewReleaseTesting(b.helm.config)
	test.Namespace, test.Timeout = "blog", plane.Patience
	tested := must[*release.Release](t)(test.Run("blog"))
	var logs bytes.Buffer
	if err := test.GetPodLogs(&logs, tested); err != nil || !strings.Contains(logs.String(), "<h1>Log of a plane</h1>") {
		t.Errorf("the test's pod wrote %q, %v", logs.String(), err)
	}
}

// uninstall runs `helm uninstall --wait`. Claims of StatefulSets stay, as on Kubernetes.
func (b *blog) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(b.helm.config)
	uninstall.Wait, uninstall.Timeout, uninstall.DeletionPropagation = true, plane.Patience, "foreground"
	must[*release.UninstallReleaseResponse](t)(uninstall.Run("blog"))
	plane.Eventually(t, "the release to leave the claim and the pod of its test", func(context.Context) error {
		got := b.Must(t, "", "-n", "blog", "get", "pods,services,secrets,jobs,pvc", "-o", "name")
		if got != "pod/blog-test\npersistentvolumeclaim/data-blog-store-0\n" {
			return errors.New(got)
		}
		return nil
	})
}

// page returns what a node's port answers.
func (b *blog) page(node int) (string, error) {
	answer, err := freshClient(20 * time.Second).Get(b.url(node))
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

func (b *blog) url(node int) string {
	return "http://" + b.nodes.List[node].Address.String() + ":30090"
}

// shows waits until the page that each node serves contains the texts.
func (b *blog) shows(t *testing.T, texts ...string) {
	t.Helper()
	for i := range b.nodes.List {
		plane.Eventually(t, fmt.Sprintf("the page at node %d to show %q", i+1, texts), func(context.Context) error {
			page, err := b.page(i)
			for _, text := range texts {
				if err == nil && !strings.Contains(page, text) {
					err = fmt.Errorf("%q is missing:\n%s", text, page)
				}
			}
			return err
		})
	}
}

func (b *blog) comment(t *testing.T, text string) {
	t.Helper()
	answer, err := freshClient(20*time.Second).PostForm(b.url(1)+"/comments", url.Values{"text": {text}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("commenting: %s", answer.Status)
	}
}
