package observability_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/test/e2e/plane"
	"github.com/garboard/garboard/test/observability"
)

// program returns the path of prometheus or promtool, or skips or fails the test.
func program(t *testing.T, name string) string {
	t.Helper()
	var path string
	var err error
	if dir := os.Getenv("GARBOARD_PROMETHEUS"); dir != "" {
		path = filepath.Join(dir, name)
		_, err = os.Stat(path)
	} else {
		path, err = exec.LookPath(name)
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("GARBOARD_REQUIRE_PROMETHEUS") == "1":
		t.Fatalf("%s is required: %v (install it with test/observability/install DIR, and set GARBOARD_PROMETHEUS=DIR)", name, err)
	default:
		t.Skipf("%s is not installed: %v", name, err)
	}
	return ""
}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// watch runs a Prometheus with the rules and scrape configuration of a deployment, but with the
// addresses of d and an interval of one second.
func watch(t *testing.T, binary string, d *deployment) *prometheus {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, observability.Scrapes))
	if err != nil {
		t.Fatal(err)
	}
	address := plane.FreeAddress(t)
	config, err := scrapes(data, d, address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.dir, "prometheus.yml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, binary, "--config.file", path, "--storage.tsdb.path", filepath.Join(d.dir, "tsdb"), "--web.listen-address", address, "--log.level", "warn")
	return &prometheus{url: "http://" + address}
}

// scrapes returns the configuration of a deployment with other addresses.
func scrapes(data []byte, d *deployment, own string) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	rules, err := filepath.Abs(filepath.Join(root, observability.RulesDir))
	if err != nil {
		return nil, err
	}
	config["rule_files"] = []string{filepath.Join(rules, "*.yml")}
	config["global"] = map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
	jobs, _ := config["scrape_configs"].([]any)
	for _, job := range jobs {
		job, ok := job.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a job of the configuration is %v", job)
		}
		name, _ := job["job_name"].(string)
		targets := d.targets[name]
		if name == "prometheus" {
			targets = []string{own}
		}
		if len(targets) == 0 {
			return nil, fmt.Errorf("the configuration has a job %q, which the deployment does not have", name)
		}
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": targets}}
		if security, ok := job["tls_config"].(map[string]any); ok {
			security["ca_file"], security["cert_file"], security["key_file"] = d.authority, d.certificate, d.key
			security["server_name"] = "localhost"
		}
	}
	if len(jobs) != len(d.targets)+1 {
		return nil, fmt.Errorf("the configuration has %d jobs, the deployment %d in addition to Prometheus itself", len(jobs), len(d.targets))
	}
	return yaml.Marshal(config)
}

// get queries Prometheus' HTTP API.
func (p *prometheus) get(path string, parameters url.Values, into any) error {
	answer, err := http.Get(p.url + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	envelope := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: into}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("reading the answer about %s: %w", path, err)
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s: %s", path, envelope.Error)
	}
	return nil
}

// sample is a series at one moment.
type sample struct {
	Labels map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// finite reports whether the value is a finite number.
func (s sample) finite() bool {
	text, _ := s.Value[1].(string)
	return text != "" && text != "NaN" && !strings.HasSuffix(text, "Inf")
}

// query evaluates an expression now. It returns a scalar as a series without labels.
func (p *prometheus) query(expression string) ([]sample, error) {
	var data struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := p.get("query", url.Values{"query": {expression}}, &data); err != nil {
		return nil, err
	}
	if data.Type == "scalar" {
		var value [2]any
		err := json.Unmarshal(data.Result, &value)
		return []sample{{Value: value}}, err
	}
	var samples []sample
	if err := json.Unmarshal(data.Result, &samples); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", data.Type, err)
	}
	return samples, nil
}

// targetsUp returns an error that names a target that is not scraped; nil if all are.
func (p *prometheus) targetsUp(want int) error {
	var data struct {
		Active []struct {
			URL    string `json:"scrapeUrl"`
			Health string `json:"health"`
			Error  string `json:"lastError"`
		} `json:"activeTargets"`
	}
	if err := p.get("targets", nil, &data); err != nil {
		return err
	}
	if len(data.Active) != want {
		return fmt.Errorf("%d targets, want %d", len(data.Active), want)
	}
	for _, target := range data.Active {
		if target.Health != "up" {
			return fmt.Errorf("%s is %s: %s", target.URL, target.Health, target.Error)
		}
	}
	return nil
}

// rulesHealthy returns an error that names a rule that was not evaluated or failed; nil if all are
// healthy.
func (p *prometheus) rulesHealthy(want int) error {
	var data struct {
		Groups []struct {
			Rules []struct {
				Name   string `json:"name"`
				Health string `json:"health"`
				Error  string `json:"lastError"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := p.get("rules", nil, &data); err != nil {
		return err
	}
	count := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Health != "ok" {
				return fmt.Errorf("the rule %s is %s: %s", rule.Name, rule.Health, rule.Error)
			}
		}
	}
	if count != want {
		return fmt.Errorf("%d rules are loaded, want %d", count, want)
	}
	return nil
}

// alerts returns the states of pending and firing alerts, by name.
func (p *prometheus) alerts() (map[string]string, error) {
	samples, err := p.query("ALERTS")
	states := map[string]string{}
	for _, s := range samples {
		if states[s.Labels["alertname"]] != "firing" {
			states[s.Labels["alertname"]] = s.Labels["alertstate"]
		}
	}
	return states, err
}
