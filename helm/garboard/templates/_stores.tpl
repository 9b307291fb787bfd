{{/* Parts specific to the pods of etcd and NATS; see garboard.podTemplate. */}}

{{- define "garboard.etcd.own" -}}
{{- $name := printf "%s-etcd" (include "garboard.fullname" .) -}}
{{- $domain := printf "%s-headless.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain -}}
{{- $members := list -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- $members = append $members (printf "%s-%d=https://%s-%d.%s:2380" $name $i $name $i $domain) -}}
{{- end -}}
command: [/usr/local/bin/etcd]
args:
  - --name=$(POD_NAME)
  - --data-dir=/var/lib/etcd/data
  - --listen-client-urls=https://0.0.0.0:2379
  - --advertise-client-urls=https://$(POD_NAME).{{ $domain }}:2379
  - --listen-peer-urls=https://0.0.0.0:2380
  - --initial-advertise-peer-urls=https://$(POD_NAME).{{ $domain }}:2380
  - --listen-metrics-urls=http://0.0.0.0:2381
  - --initial-cluster={{ join "," $members }}
  - --initial-cluster-token={{ .Release.Namespace }}-{{ $name }}
  - --initial-cluster-state=new
  - --client-cert-auth=true
  - --trusted-ca-file=/etc/garboard/pki/etcd-ca.crt
  - --cert-file=/etc/garboard/pki/server.crt
  - --key-file=/etc/garboard/pki/server.key
  - --peer-client-cert-auth=true
  - --peer-trusted-ca-file=/etc/garboard/pki/etcd-ca.crt
  - --peer-cert-file=/etc/garboard/pki/peer.crt
  - --peer-key-file=/etc/garboard/pki/peer.key
  - --quota-backend-bytes={{ int64 .Values.etcd.quotaBackendBytes }}
  - --log-level={{ .Values.logging.level }}
env:
  - name: POD_NAME
    valueFrom: { fieldRef: { fieldPath: metadata.name } }
ports:
  - { name: client, containerPort: 2379 }
  - { name: peer, containerPort: 2380 }
  - { name: metrics, containerPort: 2381 }
probes:
  {{- include "garboard.probes" (list "HTTP" "metrics" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  - { name: data, mountPath: /var/lib/etcd }
volumes:
  {{- include "garboard.pki" (list . "etcd") | nindent 2 }}
  {{- if not .Values.etcd.persistence.enabled }}
  - { name: data, emptyDir: {} }
  {{- end }}
{{- end }}

{{- define "garboard.nats.own" -}}
annotations:
  checksum/config: {{ include "garboard.nats.config" . | sha256sum }}
command: [nats-server]
args:
  - --config=/etc/nats/nats.conf
env:
  - name: POD_NAME
    valueFrom: { fieldRef: { fieldPath: metadata.name } }
ports:
  - { name: client, containerPort: 4222 }
  - { name: joining, containerPort: 4223 }
  - { name: cluster, containerPort: 6222 }
  - { name: metrics, containerPort: 8222 }
probes:
  {{- include "garboard.probes" (list "HTTP" "metrics" "/healthz?js-enabled-only=true" "/healthz?js-server-only=true") | nindent 2 }}
lifecycle:
  preStop:
    # Lame duck mode moves clients to the other servers one by one.
    exec: { command: [nats-server, --signal, ldm=/run/nats/nats.pid] }
volumeMounts:
  - { name: config, mountPath: /etc/nats, readOnly: true }
  - { name: run, mountPath: /run/nats }
  - { name: data, mountPath: /var/lib/nats }
volumes:
  # One folder, since nats-server resolves an include relative to the including file.
  - name: config
    projected:
      defaultMode: 0440
      sources:
        - configMap: { name: {{ include "garboard.fullname" . }}-nats }
        {{- include "garboard.pki.sources" (list . "nats") | nindent 8 }}
  - { name: run, emptyDir: { medium: Memory } }
  {{- if not .Values.nats.persistence.enabled }}
  - { name: data, emptyDir: {} }
  {{- end }}
{{- end }}

{{- define "garboard.nats.config" -}}
{{- $name := printf "%s-nats" (include "garboard.fullname" .) -}}
server_name: $POD_NAME
listen: 0.0.0.0:4222
http: 0.0.0.0:8222
pid_file: "/run/nats/nats.pid"

# Every client of this port must present a certificate signed by the plane's authority.
tls {
  cert_file: "/etc/nats/server.crt"
  key_file: "/etc/nats/server.key"
  ca_file: "/etc/nats/ca.crt"
  verify: true
}

# For nodes that join: they have no certificate yet, and show a bootstrap token.
websocket {
  listen: "0.0.0.0:4223"
  tls {
    cert_file: "/etc/nats/server.crt"
    key_file: "/etc/nats/server.key"
  }
}

jetstream {
  store_dir: "/var/lib/nats"
  max_file_store: {{ .Values.nats.maxFileStore }}
}

max_payload: 1MB
max_pending: 64MB
# Subscriptions per client, which needs one or two for each view that it follows, and total connections.
max_subscriptions: 8192
max_connections: 16384
max_control_line: 4KB
# A slow client loses messages and asks for them again; it does not slow down others.
no_fast_producer_stall: true
lame_duck_grace_period: 2s
lame_duck_duration: 30s

# The apiservers decide which clients may connect and what they may read.
include "nats-auth.conf"
{{- if gt (int .Values.nats.replicas) 1 }}

cluster {
  name: {{ $name }}
  listen: 0.0.0.0:6222
  # A frozen server keeps its connections, and the others route requests to it until their pings
  # time out. With the defaults of NATS that takes a minute and a half.
  ping_interval: "3s"
  ping_max: 2
  # Certificates do not cover the addresses of pods.
  no_advertise: true
  # A route may read and publish everything. This authority signs certificates for routes only, not for
  # nodes or users.
  tls {
    cert_file: "/etc/nats/route.crt"
    key_file: "/etc/nats/route.key"
    ca_file: "/etc/nats/routes-ca.crt"
    verify: true
    timeout: 5
  }
  routes: [
    {{- range $i := until (int .Values.nats.replicas) }}
    tls://{{ $name }}-{{ $i }}.{{ $name }}-headless.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:6222
    {{- end }}
  ]
}
{{- end }}
{{ end }}
