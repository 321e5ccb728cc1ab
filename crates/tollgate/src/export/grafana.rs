//! A dashboard for Grafana.

use serde_json::{Value, json};
use tollgate_meter::alarms::AlarmSettings;

use super::panels::{self, Draw, Panel, Query};

/// Grafana's own number for the shape of the file; later versions convert it when they import.
const SCHEMA: u32 = 39;
/// Width of the grid.
const WIDTH: u32 = 24;

/// The dashboard as JSON. Thresholds are drawn where the settings have one.
pub fn dashboard(settings: &AlarmSettings) -> String {
    let mut layout = Layout::default();
    for (title, panels) in panels::rows(settings) {
        layout.row(title);
        for panel in &panels {
            layout.panel(panel);
        }
    }
    let dashboard = json!({
        "uid": "tollgate-ledger",
        "title": "Tollgate: what TLS costs",
        "description": format!("Made by `tollgate export grafana` of Tollgate {}.", env!("CARGO_PKG_VERSION")),
        "tags": ["tollgate", "tls"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": { "from": "now-1h", "to": "now" },
        "timezone": "browser",
        "templating": { "list": variables() },
        "annotations": { "list": annotations() },
        "panels": layout.panels,
    });
    // A value made of texts and numbers can always be written.
    let mut text = serde_json::to_string_pretty(&dashboard).unwrap_or_default();
    text.push('\n');
    text
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variables() -> Value {
    json!([
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
            "refresh": 1,
            "multi": false,
            "includeAll": false,
        },
        {
            "name": "instance",
            "label": "Instance",
            "type": "query",
            "datasource": source(),
            "definition": "label_values(tollgate_build_info, instance)",
            "query": { "query": "label_values(tollgate_build_info, instance)", "refId": "instance" },
            "refresh": 2,
            "sort": 1,
            "multi": true,
            "includeAll": true,
            "allValue": ".*",
            "current": { "selected": true, "text": ["All"], "value": ["$__all"] },
        },
    ])
}

/// Each configuration that took effect, and each alarm that changed, as a mark on every graph.
fn annotations() -> Value {
    let mark =
        |name: &str, expression: &str, color: &str, title: &str, text: &str, by_value: bool| {
            json!({
                "name": name,
                "datasource": source(),
                "enable": true,
                "hide": false,
                "iconColor": color,
                "expr": expression,
                "step": "10s",
                "titleFormat": title,
                "textFormat": text,
                "useValueForTime": by_value,
            })
        };
    let [configuration, alarms] = panels::ANNOTATIONS;
    json!([
        {
            "name": "Annotations & Alerts",
            "type": "dashboard",
            "builtIn": 1,
            "datasource": { "type": "grafana", "uid": "-- Grafana --" },
            "enable": true,
            "hide": true,
            "iconColor": "rgba(0, 211, 255, 1)",
        },
        mark("Configurations", configuration, "blue", "configuration {{hash}}", "{{instance}}", true),
        mark("Alarms", alarms, "red", "{{alarm}} {{subject}}", "{{instance}}", false),
    ])
}

/// Places panels from left to right, and rows below each other.
#[derive(Default)]
struct Layout {
    panels: Vec<Value>,
    x: u32,
    y: u32,
    height: u32,
}

impl Layout {
    fn row(&mut self, title: &str) {
        self.y += self.height;
        self.panels.push(json!({
            "id": self.panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "panels": [],
            "gridPos": { "x": 0, "y": self.y, "w": WIDTH, "h": 1 },
        }));
        self.y += 1;
        (self.x, self.height) = (0, 0);
    }

    fn panel(&mut self, panel: &Panel) {
        let (width, height) = panel.size;
        if self.x + width > WIDTH {
            self.y += self.height;
            (self.x, self.height) = (0, 0);
        }
        let at = json!({ "x": self.x, "y": self.y, "w": width, "h": height });
        self.panels.push(drawn(panel, self.panels.len() + 1, at));
        self.x += width;
        self.height = self.height.max(height);
    }
}

fn drawn(panel: &Panel, id: usize, at: Value) -> Value {
    let (kind, custom, options) = match panel.draw {
        Draw::Lines => ("timeseries", lines(panel, "none"), legend()),
        Draw::Stack => ("timeseries", lines(panel, "normal"), legend()),
        Draw::Number => ("stat", json!({}), number()),
        Draw::Table => (
            "table",
            json!({ "align": "auto" }),
            json!({ "showHeader": true, "cellHeight": "sm" }),
        ),
    };
    let mut transformations = json!([]);
    if panel.draw == Draw::Table {
        transformations = json!([{
            "id": "organize",
            "options": { "excludeByName": { "Time": true, "__name__": true, "job": true } },
        }]);
    }
    json!({
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": source(),
        "gridPos": at,
        "targets": targets(panel),
        "transformations": transformations,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": panel.from_zero.then_some(0),
                "custom": custom,
                "thresholds": thresholds(panel),
            },
            "overrides": [],
        },
        "options": options,
    })
}

fn lines(panel: &Panel, stacking: &str) -> Value {
    json!({
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": if stacking == "normal" { 30 } else { 8 },
        "showPoints": "never",
        "spanNulls": false,
        "stacking": { "mode": stacking, "group": "A" },
        "thresholdsStyle": { "mode": if panel.threshold.is_some() { "dashed" } else { "off" } },
    })
}

fn legend() -> Value {
    json!({
        "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true },
        "tooltip": { "mode": "multi", "sort": "desc" },
    })
}

fn number() -> Value {
    json!({
        "colorMode": "none",
        "graphMode": "area",
        "justifyMode": "auto",
        "textMode": "auto",
        "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false },
    })
}

fn thresholds(panel: &Panel) -> Value {
    let mut steps = vec![json!({ "color": "green", "value": null })];
    if let Some(threshold) = panel.threshold {
        steps.push(json!({ "color": "red", "value": threshold }));
    }
    json!({ "mode": "absolute", "steps": steps })
}

fn targets(panel: &Panel) -> Vec<Value> {
    let target = |(number, query): (usize, &Query)| {
        let name = char::from(b'A' + u8::try_from(number).unwrap_or(0));
        let table = panel.draw == Draw::Table;
        json!({
            "refId": name.to_string(),
            "datasource": source(),
            "editorMode": "code",
            "expr": query.expression,
            "legendFormat": query.legend,
            "range": !table,
            "instant": table,
            "format": if table { "table" } else { "time_series" },
        })
    };
    panel.queries.iter().enumerate().map(target).collect()
}
