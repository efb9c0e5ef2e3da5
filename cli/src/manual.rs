//! `pfpl man`.

use clap::Command;
use clap_mangen::Man;

/// One page with all that the help of each command says.
pub fn page(mut command: Command) -> anyhow::Result<String> {
    command.build();
    let mut page = Vec::new();
    let top = Man::new(command.clone()).section("1");
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    let mut page = String::from_utf8(page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let mut part = Vec::new();
        let man = Man::new(sub.clone());
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        page += &format!(".SH \"{}\"\n", sub.get_bin_name().unwrap_or(sub.get_name()));
        page += &String::from_utf8(part)?.replace("\n.SH ", "\n.SS ");
    }
    let mut rest = Vec::new();
    top.render_extra_section(&mut rest)?;
    top.render_version_section(&mut rest)?;
    Ok(page + &String::from_utf8(rest)?)
}
